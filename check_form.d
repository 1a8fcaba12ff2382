check_form.o: lab/verify/check_form.c engine/base/clock.h \
  lab/receipt/receipt.h engine/base/digest.h engine/base/buf.h \
  engine/base/mem.h engine/bn.h engine/base/json.h lab/verify/checks.h \
  kernels/kernels.h lab/verify/rules.h lab/receipt/open.h \
  lab/receipt/envelope.h lab/verify/policy.h

engine/base/clock.h:

lab/receipt/receipt.h:

engine/base/digest.h:

engine/base/buf.h:

engine/base/mem.h:

engine/bn.h:

engine/base/json.h:

lab/verify/checks.h:

kernels/kernels.h:

lab/verify/rules.h:

lab/receipt/open.h:

lab/receipt/envelope.h:

lab/verify/policy.h:
