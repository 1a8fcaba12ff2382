run.o: tools/run/run.c tools/run/run.h engine/base/buf.h \
  engine/base/mem.h engine/bn.h engine/base/digest.h \
  engine/stamp/profiler.h engine/base/clock.h kernels/kernels.h \
  engine/stamp/brick.h tools/cli/options.h engine/base/error.h \
  tools/cli/default_model.h tools/cli/report.h tools/cli/text.h

tools/run/run.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/base/digest.h:

engine/stamp/profiler.h:

engine/base/clock.h:

kernels/kernels.h:

engine/stamp/brick.h:

tools/cli/options.h:

engine/base/error.h:

tools/cli/default_model.h:

tools/cli/report.h:

tools/cli/text.h:
