generate.o: tools/run/generate.c engine/base/error.h engine/bn.h \
  engine/base/json.h engine/base/buf.h engine/base/mem.h \
  engine/base/digest.h engine/base/utf8.h lab/receipt/receipt.h \
  tools/cli/default_model.h tools/cli/options.h tools/cli/print_json.h \
  tools/cli/report.h tools/cli/text.h tools/run/run.h \
  engine/stamp/profiler.h engine/base/clock.h kernels/kernels.h \
  engine/stamp/brick.h

engine/base/error.h:

engine/bn.h:

engine/base/json.h:

engine/base/buf.h:

engine/base/mem.h:

engine/base/digest.h:

engine/base/utf8.h:

lab/receipt/receipt.h:

tools/cli/default_model.h:

tools/cli/options.h:

tools/cli/print_json.h:

tools/cli/report.h:

tools/cli/text.h:

tools/run/run.h:

engine/stamp/profiler.h:

engine/base/clock.h:

kernels/kernels.h:

engine/stamp/brick.h:
