pretokenize.o: engine/tokenizer/pretokenize.c \
  engine/tokenizer/pretokenize.h engine/base/buf.h engine/base/mem.h \
  engine/bn.h engine/base/error.h engine/base/utf8.h

engine/tokenizer/pretokenize.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/base/error.h:

engine/base/utf8.h:
