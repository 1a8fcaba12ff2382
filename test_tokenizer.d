test_tokenizer.o: tests/unit/engine/test_tokenizer.c \
  tests/unit/engine/tokenizer_maker.h engine/base/file.h \
  engine/base/buf.h engine/base/mem.h engine/bn.h engine/base/utf8.h \
  tests/unit/unit.h tests/unit/engine/vocab_maker.h \
  engine/tokenizer/vocab.h engine/tokenizer/pretokenize.h \
  engine/tokenizer/tokenizer.h engine/gguf/gguf.h engine/gguf/types.h

tests/unit/engine/tokenizer_maker.h:

engine/base/file.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/base/utf8.h:

tests/unit/unit.h:

tests/unit/engine/vocab_maker.h:

engine/tokenizer/vocab.h:

engine/tokenizer/pretokenize.h:

engine/tokenizer/tokenizer.h:

engine/gguf/gguf.h:

engine/gguf/types.h:
