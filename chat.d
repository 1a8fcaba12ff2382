chat.o: tools/run/chat.c engine/base/error.h engine/bn.h \
  engine/base/suggest.h tools/cli/default_model.h tools/cli/options.h \
  tools/cli/report.h tools/cli/text.h engine/base/buf.h \
  engine/base/mem.h tools/run/run.h engine/base/digest.h \
  engine/stamp/profiler.h engine/base/clock.h kernels/kernels.h \
  engine/stamp/brick.h

engine/base/error.h:

engine/bn.h:

engine/base/suggest.h:

tools/cli/default_model.h:

tools/cli/options.h:

tools/cli/report.h:

tools/cli/text.h:

engine/base/buf.h:

engine/base/mem.h:

tools/run/run.h:

engine/base/digest.h:

engine/stamp/profiler.h:

engine/base/clock.h:

kernels/kernels.h:

engine/stamp/brick.h:
