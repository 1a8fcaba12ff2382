fuzz_tokenizer.o: tests/fuzz/fuzz_tokenizer.c \
  tests/unit/engine/vocab_maker.h engine/tokenizer/vocab.h \
  engine/tokenizer/pretokenize.h engine/base/buf.h engine/base/mem.h \
  engine/bn.h engine/tokenizer/tokenizer.h engine/gguf/gguf.h \
  engine/gguf/types.h

tests/unit/engine/vocab_maker.h:

engine/tokenizer/vocab.h:

engine/tokenizer/pretokenize.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/tokenizer/tokenizer.h:

engine/gguf/gguf.h:

engine/gguf/types.h:
