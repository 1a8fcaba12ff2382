tokenizer.o: engine/tokenizer/tokenizer.c engine/base/digest.h \
  engine/base/buf.h engine/base/mem.h engine/bn.h engine/base/error.h \
  engine/tokenizer/vocab.h engine/tokenizer/pretokenize.h \
  engine/tokenizer/tokenizer.h engine/gguf/gguf.h engine/gguf/types.h

engine/base/digest.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/base/error.h:

engine/tokenizer/vocab.h:

engine/tokenizer/pretokenize.h:

engine/tokenizer/tokenizer.h:

engine/gguf/gguf.h:

engine/gguf/types.h:
