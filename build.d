build.o: lab/receipt/build.c engine/base/clock.h engine/base/error.h \
  engine/bn.h build/gcc/build_info.h lab/host/git.h engine/base/json.h \
  engine/base/buf.h engine/base/mem.h engine/base/digest.h \
  lab/host/machine.h lab/kit/program.h lab/receipt/receipt.h \
  engine/model/model.h engine/base/file.h engine/gguf/gguf.h \
  engine/gguf/types.h kernels/kernels.h engine/tokenizer/tokenizer.h

engine/base/clock.h:

engine/base/error.h:

engine/bn.h:

build/gcc/build_info.h:

lab/host/git.h:

engine/base/json.h:

engine/base/buf.h:

engine/base/mem.h:

engine/base/digest.h:

lab/host/machine.h:

lab/kit/program.h:

lab/receipt/receipt.h:

engine/model/model.h:

engine/base/file.h:

engine/gguf/gguf.h:

engine/gguf/types.h:

kernels/kernels.h:

engine/tokenizer/tokenizer.h:
