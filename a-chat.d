chat.o: engine/tokenizer/chat.c engine/base/error.h engine/bn.h \
 engine/tokenizer/vocab.h engine/tokenizer/pretokenize.h \
 engine/base/buf.h engine/base/mem.h engine/tokenizer/tokenizer.h \
 engine/gguf/gguf.h engine/gguf/types.h
engine/base/error.h:
engine/bn.h:
engine/tokenizer/vocab.h:
engine/tokenizer/pretokenize.h:
engine/base/buf.h:
engine/base/mem.h:
engine/tokenizer/tokenizer.h:
engine/gguf/gguf.h:
engine/gguf/types.h:
