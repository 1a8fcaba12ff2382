# bn: the one build file. `make help` lists the targets.
#
# CC, CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS belong to the user; what the project needs is in BN_*. Objects go to
# build/<variant>, so sanitizer builds and normal ones do not mix. File lists are sorted wildcards: a new file is
# built because it lies in its folder.

CC ?= gcc
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O2 -g
BUILD ?= build
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
INSTALL ?= install

comma := ,
OUT := $(BUILD)/$(notdir $(firstword $(CC)))$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(DEBUG),-debug)
Q := $(if $(V),,@)
SAY = $(if $(V),@:,@printf '  %-5s %s\n')

IS_CLANG := $(findstring clang,$(CC))
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)

# ---- flags ---------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
    -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wcast-qual -Wwrite-strings -Wformat=2 \
    -Wnull-dereference -Wdouble-promotion -Wimplicit-fallthrough -Wswitch-enum \
    $(if $(IS_CLANG),-Wcast-align,-Wcast-align=strict)
HARDEN := -fstack-protector-strong -fPIE $(if $(SAN)$(DEBUG),,-D_FORTIFY_SOURCE=2)
BN_CPPFLAGS := -Iengine -I. -I$(OUT)
BN_CFLAGS := -std=c11 $(WARNINGS) $(HARDEN) -fopenmp -fno-omit-frame-pointer -ffp-contract=off -fno-fast-math \
    -fexcess-precision=standard -ffile-prefix-map=$(CURDIR)=. -MMD -MP $(if $(WERROR),-Werror)
ifneq ($(IS_CLANG),)
BN_CFLAGS := $(filter-out -fexcess-precision=standard,$(BN_CFLAGS))
endif
BN_LDFLAGS := -fopenmp -pie -Wl,-z,relro,-z,now,--as-needed
BN_LDLIBS := -lcrypto -lcjson -lgit2 -lpcre2-8 -lm
ifneq ($(SAN),)
BN_CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all
BN_LDFLAGS += -fsanitize=$(SAN)
endif
ifneq ($(DEBUG),)
CFLAGS := -O0 -g3
endif
ALL_CFLAGS = $(BN_CPPFLAGS) $(CPPFLAGS) $(BN_CFLAGS) $(CFLAGS) $(KERNEL_FLAGS)

# Only kernels get instruction-set flags, by the file's name.
$(OUT)/kernels/%.o: KERNEL_FLAGS := -O3
$(OUT)/kernels/x86_avx2_%.o: KERNEL_FLAGS := -O3 -mavx2 -mfma -mf16c
$(OUT)/kernels/x86_avxvnni_%.o: KERNEL_FLAGS := -O3 -mavx2 -mavxvnni
$(OUT)/kernels/x86_avx512_%.o: KERNEL_FLAGS := -O3 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq \
    -mavx512vnni -mprefer-vector-width=512
$(OUT)/kernels/arm_neon_%.o: KERNEL_FLAGS := -O3 -march=armv8.2-a+dotprod

# ---- files ---------------------------------------------------------------------------------------------------

src = $(sort $(wildcard $(1)))
obj = $(patsubst %,$(OUT)/%.o,$(basename $(call src,$(1))))

KERNEL_SRC := kernels/dispatch.c $(call src,kernels/ref_*.c) \
    $(if $(filter x86_64,$(ARCH)),$(call src,kernels/x86_*.c)) $(if $(filter aarch64,$(ARCH)),$(call src,kernels/arm_*.c))
KERNEL_OBJ := $(KERNEL_SRC:%.c=$(OUT)/%.o)
LIB_OBJ := $(call obj,engine/*/*.c) $(KERNEL_OBJ)
LIB := $(OUT)/libbn.a

TOOLS := $(patsubst tools/%.c,%,$(call src,tools/bn*.c))
PROGRAMS := $(TOOLS:%=$(OUT)/%)
CLI_OBJ := $(call obj,tools/cli/*.c)
UNIT_TESTS := $(patsubst tests/unit/%.c,$(OUT)/tests/unit/%,$(call src,tests/unit/*.c))
CHECKKERN := $(OUT)/tests/checkkern/checkkern
CLI_TESTS := $(call src,tests/cli/*.sh)
C_FILES := $(call src,engine/*.h engine/*/*.[ch] kernels/*.[ch] tools/*.[ch] tools/*/*.[ch] tests/*/*.[ch])

.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all help deps demo check test lint format check-headers install uninstall clean version FORCE

all: $(LIB) $(PROGRAMS) ## library and programs (the default)

help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'

deps: ## install the Debian packages that are missing
	@ci/install-packages.sh

# ---- building ------------------------------------------------------------------------------------------------

# Objects are rebuilt when the flags change.
FLAGS_LINE = $(CC) $(ALL_CFLAGS) $(BN_LDFLAGS) $(LDFLAGS)
$(OUT)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS_LINE)' | cmp -s - $@ || echo '$(FLAGS_LINE)' > $@

# The commit that this was built from; rewritten only when it changes.
$(OUT)/build_info.h: FORCE
	@mkdir -p $(@D); sh ci/build-info.sh "$(CC)" > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(OUT)/%.o: %.c $(OUT)/flags
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(OUT)/%.o: %.S $(OUT)/flags
	$(SAY) AS $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(BN_CPPFLAGS) -MMD -MP -c -o $@ $<

$(call obj,engine/receipt/*.c engine/measure/*.c tools/cli/*.c): | $(OUT)/build_info.h

$(LIB): $(LIB_OBJ)
	$(SAY) AR $@
	$(Q)rm -f $@; $(AR) rcsD $@ $^

LINK = $(CC) $(BN_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(BN_LDLIBS) $(LDLIBS)

# A program is tools/bn-x.c, what lies in tools/x/, and what all programs share.
define program
$(OUT)/$(1): $(OUT)/tools/$(1).o $(call obj,tools/$(patsubst bn-%,%,$(1))/*.c) $(CLI_OBJ) $(LIB)
	$$(SAY) LD $$@
	$$(Q)$$(LINK)
endef
$(foreach t,$(TOOLS),$(eval $(call program,$(t))))
# bn-run and bn-verify-receipt carry the default model.
$(OUT)/bn-run $(OUT)/bn-verify-receipt: $(OUT)/tools/cli/default_model.o
$(OUT)/tools/cli/default_model.o: fixtures/shakespeare-5m-i2_s.gguf

# ---- tests ---------------------------------------------------------------------------------------------------

$(OUT)/tests/unit/%: $(OUT)/tests/unit/%.o $(LIB)
	$(SAY) LD $@
	$(Q)$(LINK) -lcmocka

$(CHECKKERN): $(call obj,tests/checkkern/*.c) $(KERNEL_OBJ)
	$(SAY) LD $@
	$(Q)$(CC) $(filter-out -fopenmp,$(BN_LDFLAGS)) $(LDFLAGS) -o $@ $^ -lm

check: deps ## every test; the last line counts them
	@$(MAKE) --no-print-directory run-tests

run-tests: $(PROGRAMS) $(UNIT_TESTS) $(CHECKKERN)
	@OUT=$(OUT) CC="$(CC)" tests/run.sh $(UNIT_TESTS) $(CHECKKERN) $(CLI_TESTS)

test: check

# ---- style and structure -------------------------------------------------------------------------------------

lint: check-headers ## formatting, static analysis, who may include whom, both compilers without a warning
	@ci/lint.sh

format: ## apply .clang-format
	clang-format -i $(C_FILES)

check-headers: ## every header compiles alone; bn.h as C++ too
	@for h in $(call src,engine/*.h engine/*/*.h kernels/*.h tools/*/*.h); do \
	    $(CC) $(BN_CPPFLAGS) -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c $$h || exit 1; done
	@$(CXX) -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ engine/bn.h

# ---- installing ----------------------------------------------------------------------------------------------

install: all ## into DESTDIR, PREFIX, BINDIR, LIBDIR, INCLUDEDIR, MANDIR
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR) $(DESTDIR)$(INCLUDEDIR)
	$(INSTALL) -m 755 $(PROGRAMS) $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 644 $(LIB) $(DESTDIR)$(LIBDIR)/libbn.a
	$(INSTALL) -m 644 engine/bn.h $(DESTDIR)$(INCLUDEDIR)/bn.h

uninstall: ## what install put there
	rm -f $(TOOLS:%=$(DESTDIR)$(BINDIR)/%) $(DESTDIR)$(LIBDIR)/libbn.a $(DESTDIR)$(INCLUDEDIR)/bn.h

clean: ## remove build/
	rm -rf $(BUILD)

-include $(wildcard $(OUT)/*/*.d $(OUT)/*/*/*.d)
