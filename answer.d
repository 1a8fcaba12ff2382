answer.o: tools/run/answer.c engine/base/error.h engine/bn.h \
  tools/cli/report.h tools/run/run.h engine/base/buf.h engine/base/mem.h \
  engine/base/digest.h engine/stamp/profiler.h engine/base/clock.h \
  kernels/kernels.h engine/stamp/brick.h tools/cli/options.h

engine/base/error.h:

engine/bn.h:

tools/cli/report.h:

tools/run/run.h:

engine/base/buf.h:

engine/base/mem.h:

engine/base/digest.h:

engine/stamp/profiler.h:

engine/base/clock.h:

kernels/kernels.h:

engine/stamp/brick.h:

tools/cli/options.h:
