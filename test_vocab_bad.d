test_vocab_bad.o: tests/unit/engine/test_vocab_bad.c tests/unit/unit.h \
  tests/unit/engine/vocab_maker.h engine/tokenizer/vocab.h \
  engine/tokenizer/pretokenize.h engine/base/buf.h engine/base/mem.h \
  engine/bn.h engine/tokenizer/tokenizer.h engine/gguf/gguf.h \
  engine/gguf/types.h

tests/unit/unit.h:

tests/unit/engine/vocab_maker.h:

engine/tokenizer/vocab.h:

engine/tokenizer/pretokenize.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/tokenizer/tokenizer.h:

engine/gguf/gguf.h:

engine/gguf/types.h:
