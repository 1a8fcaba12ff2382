test_pretokenize.o: tests/unit/engine/test_pretokenize.c \
  engine/base/utf8.h tests/unit/unit.h engine/tokenizer/pretokenize.h \
  engine/base/buf.h engine/base/mem.h engine/bn.h

engine/base/utf8.h:

tests/unit/unit.h:

engine/tokenizer/pretokenize.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:
