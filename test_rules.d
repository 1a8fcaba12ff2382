test_rules.o: tests/unit/receipt/test_rules.c \
  tests/unit/receipt/rules_maker.h engine/base/clock.h \
  engine/base/file.h engine/base/buf.h engine/base/mem.h engine/bn.h \
  lab/receipt/receipt.h engine/base/digest.h engine/base/json.h \
  lab/verify/rules.h lab/receipt/open.h lab/receipt/envelope.h \
  lab/verify/policy.h tests/unit/unit.h

tests/unit/receipt/rules_maker.h:

engine/base/clock.h:

engine/base/file.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

lab/receipt/receipt.h:

engine/base/digest.h:

engine/base/json.h:

lab/verify/rules.h:

lab/receipt/open.h:

lab/receipt/envelope.h:

lab/verify/policy.h:

tests/unit/unit.h:
