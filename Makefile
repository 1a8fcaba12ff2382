# bn: the one build file. `make help` lists the targets.
#
# CC, CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS belong to the user; what the project needs is in BN_*. Objects go to
# build/<variant>, so that different builds do not mix. V=1 shows commands, WERROR=1 makes warnings errors,
# SAN=address,undefined, DEBUG=1, LTO=1, COVER=1, GIT=0 (no libgit2), BLAS=0 (no bn-train), MPI=0 (no bn-mpi.so),
# OPENCL=0 (the CPU only) and SECCOMP=0 (a sandbox without libseccomp) are variants.
# File lists are sorted wildcards: a new file is built because it lies in its folder.

CC ?= gcc
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O2 -g
BUILD ?= build
PKG_CONFIG ?= pkg-config
VERSION := $(shell packaging/version.sh)
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
LIBEXECDIR ?= $(PREFIX)/libexec
DOCDIR ?= $(PREFIX)/share/doc/bn
INSTALL ?= install

comma := ,
VARIANT := $(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(DEBUG),-debug)$(if $(LTO),-lto)$(if $(COVER),-cover)
OUT := $(BUILD)/$(notdir $(firstword $(CC)))$(VARIANT)$(if $(filter 0,$(GIT)),-nogit)
Q := $(if $(V),,@)
SAY = $(if $(V),@:,@printf '  %-5s %s\n')

ifeq ($(origin CXX),default)
CXX = $(subst gcc,g++,$(subst clang,clang++,$(CC)))
endif
IS_CLANG := $(findstring clang,$(CC))
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)

# ---- flags ---------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
    -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wcast-qual -Wwrite-strings -Wformat=2 \
    -Wnull-dereference -Wdouble-promotion -Wimplicit-fallthrough -Wswitch-enum \
    $(if $(IS_CLANG),-Wcast-align,-Wcast-align=strict)
# What the compiler knows of these; a probe costs some milliseconds. -Werror, since clang only warns of an unknown one.
takes = $(if $(shell $(CC) -Werror -O2 $(1) -include string.h -x c -c -o /dev/null /dev/null 2>&1 || echo no),,$(1))
FORTIFY := $(or $(call takes,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
HARDEN_x86_64 := -fcf-protection
HARDEN_aarch64 := -mbranch-protection=standard
HARDEN := $(foreach flag,-fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero \
    $(HARDEN_$(ARCH)),$(call takes,$(flag))) $(if $(SAN)$(DEBUG),,$(FORTIFY))
HARDEN_LD := -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--as-needed
# Files of data take part in the protection of indirect jumps.
HARDEN_AS := $(if $(findstring -fcf-protection,$(HARDEN)),-fcf-protection -include cet.h)
# Frame pointers are what samplers walk; gcc leaves them out of leaf functions that use no stack all the same.
BN_CPPFLAGS := -Iengine -I. -I$(OUT) -DBN_INTERNAL
BN_CFLAGS := -std=c11 $(WARNINGS) -fPIE $(HARDEN) -pthread -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer \
    -ffp-contract=off -fno-fast-math -fexcess-precision=standard -ffile-prefix-map="$(CURDIR)=." -MMD -MP \
    $(if $(WERROR),-Werror)
ifneq ($(IS_CLANG),)
BN_CFLAGS := $(filter-out -fexcess-precision=standard,$(BN_CFLAGS))
endif
BN_LDFLAGS := -pthread $(HARDEN_LD)
PACKAGES := libcrypto libmicrohttpd libpcre2-8 libcurl libcjson libelf libdw libedit yaml-0.1 ncursesw $(if $(filter 0,$(GIT)),,libgit2) \
    $(if $(filter 0,$(SECCOMP)),,libseccomp)
# bn-train is built where OpenBLAS is.
BLAS ?= $(if $(shell $(PKG_CONFIG) --exists openblas 2>/dev/null && echo yes),1,0)
# bn-mpi.so is built where MPI is; programs load it under mpirun.
MPI_PACKAGE := $(firstword $(foreach p,ompi-c mpich,$(if $(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null && echo yes),$(p))))
MPI ?= $(if $(MPI_PACKAGE),1,0)
# Devices are built where OpenCL's headers are; its loader is opened when a device is asked for.
OPENCL ?= $(if $(shell $(CC) $(CPPFLAGS) -E -include CL/cl.h -x c /dev/null >/dev/null 2>&1 && echo yes),1,0)
# Asked when something is linked, which may be after `make deps` installed it.
BN_LDLIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -lm
# The reference is C++ and knows nothing of the engine: no include path leads there.
BN_CXXFLAGS := -std=c++17 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -fPIE $(HARDEN) \
    -ffp-contract=off -fno-fast-math -ffile-prefix-map="$(CURDIR)=." -MMD -MP
CXXFLAGS ?= -g
ifneq ($(SAN),)
BN_CPPFLAGS += -DBN_SANITIZED
BN_CXXFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all
BN_CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all
BN_LDFLAGS += -fsanitize=$(SAN)
endif
ifneq ($(DEBUG),)
CFLAGS := -O0 -g3
endif
ifneq ($(LTO),)
BN_CFLAGS += -flto
BN_LDFLAGS += -flto
AR = $(if $(IS_CLANG),llvm-ar,gcc-ar)
endif
ifneq ($(COVER),)
BN_CFLAGS += --coverage
BN_CPPFLAGS += -DBN_COVER_FOLDER=\"$(abspath $(OUT))\"
BN_LDFLAGS += --coverage
endif
ifeq ($(GIT),0)
BN_CPPFLAGS += -DBN_NO_GIT
endif
ifeq ($(SECCOMP),0)
BN_CPPFLAGS += -DBN_NO_SECCOMP
endif
ifeq ($(OPENCL),0)
BN_CPPFLAGS += -DBN_NO_OPENCL
endif
# The library's objects are in libbn.a and in libbn.so; only what bn.h declares is visible outside of it.
ENGINE_CFLAGS := -fPIC -fvisibility=hidden
$(OUT)/engine/%.o $(OUT)/kernels/%.o $(OUT)/opencl/%.o: BN_CFLAGS += $(ENGINE_CFLAGS)
ALL_CFLAGS = $(BN_CPPFLAGS) $(CPPFLAGS) $(BN_CFLAGS) $(CFLAGS) $(KERNEL_FLAGS)

# Only kernels get instruction-set flags, by the file's name. They write their local rows before they read them, and
# the rows have a known size: no zeroing and no probing is needed.
KERNEL_ALL := $(if $(SAN),-O1,-O3) $(if $(findstring -ftrivial-auto-var-init,$(HARDEN)),-ftrivial-auto-var-init=uninitialized) \
    $(if $(findstring -fstack-clash,$(HARDEN)),-fno-stack-clash-protection)
AVX512 := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512
$(OUT)/kernels/%.o: KERNEL_FLAGS := $(KERNEL_ALL)
$(OUT)/kernels/x86/avx2_%.o: KERNEL_FLAGS := $(KERNEL_ALL) -mavx2 -mfma -mf16c
$(OUT)/kernels/x86/avxvnni_%.o: KERNEL_FLAGS := $(KERNEL_ALL) -mavx2 -mavxvnni
$(OUT)/kernels/x86/avx512_%.o: KERNEL_FLAGS := $(KERNEL_ALL) $(AVX512)
$(OUT)/kernels/x86/avx512vbmi_%.o: KERNEL_FLAGS := $(KERNEL_ALL) $(AVX512) -mavx512vbmi
$(OUT)/kernels/arm/neon_%.o: KERNEL_FLAGS := $(KERNEL_ALL) -march=armv8.2-a+dotprod
# What each case of a kernel computes is compared: its lines are not counted, nor its branches for the fuzzer. Sanitizers make
# unrolled intrinsics long, and clang slow: hence -O1 above.
ifneq ($(COVER)$(SAN),)
$(OUT)/kernels/%.o: BN_CFLAGS := $(subst $(comma)fuzzer-no-link,,$(filter-out --coverage,$(BN_CFLAGS))) $(ENGINE_CFLAGS)
endif
# Training: loops over elements, and the one file that includes the BLAS.
$(OUT)/train/%.o: KERNEL_FLAGS := $(KERNEL_ALL)
$(OUT)/train/gemm.o $(OUT)/train64/gemm.o: BN_CPPFLAGS += $(shell $(PKG_CONFIG) --cflags openblas 2>/dev/null)

# ---- files ---------------------------------------------------------------------------------------------------

src = $(sort $(wildcard $(1)))
obj = $(patsubst %,$(OUT)/%.o,$(basename $(call src,$(1))))

KERNEL_DIR_x86_64 := kernels/x86
KERNEL_DIR_aarch64 := kernels/arm
KERNEL_SRC := $(call src,kernels/*.c $(KERNEL_DIR_$(ARCH):%=%/*.c))
KERNEL_OBJ := $(KERNEL_SRC:%.c=$(OUT)/%.o)
# libbn.a runs models. libbnlab.a measures, proves and compares; libbnhub.a downloads; libbnmpi.a joins processes. Only
# libbn.a is installed.
LIB := $(OUT)/libbn.a
SONAME := libbn.so.$(firstword $(subst ., ,$(VERSION)))
SHARED := $(OUT)/libbn.so.$(VERSION)
LAB := $(OUT)/libbnlab.a
HUB := $(OUT)/libbnhub.a
TRAIN := $(OUT)/libbntrain.a
RANKS := $(OUT)/libbnmpi.a
PLUGIN := $(if $(filter 0,$(MPI)),,$(OUT)/bn-mpi.so)
LIBS := $(HUB) $(RANKS) $(LAB) $(LIB)
# none.c refuses every device.
OPENCL_OBJ := $(if $(filter 0,$(OPENCL)),$(OUT)/opencl/none.o,$(filter-out %/none.o,$(call obj,opencl/*.[cS])))
LIB_OBJ := $(call obj,engine/*/*.[cS]) $(OPENCL_OBJ) $(KERNEL_OBJ)
LAB_OBJ := $(call obj,lab/*/*.[cS])
HUB_OBJ := $(call obj,hub/*.[cS] hub/*/*.[cS])
TRAIN_OBJ := $(call obj,train/*.c)
RANKS_OBJ := $(filter-out $(OUT)/mpi/plugin.o,$(call obj,mpi/*.c))

TOOLS := $(filter-out $(if $(filter 0,$(BLAS)),bn-train),$(patsubst tools/%.c,%,$(call src,tools/bn*.c)))
PROGRAMS := $(TOOLS:%=$(OUT)/%)
CLI_OBJ := $(call obj,tools/cli/*.[cS] tools/cli/*/*.[cS])
CLI_LIB := $(OUT)/libcli.a
UNIT_TESTS := $(patsubst %.c,$(OUT)/%,$(filter-out $(if $(filter 0,$(BLAS)),tests/unit/train/%) \
    $(if $(filter 0,$(OPENCL)),tests/unit/opencl/%),$(call src,tests/unit/*/*.c)))
CHECKKERN := $(OUT)/tests/checkkern/checkkern
REFERENCE := $(OUT)/crossval/bn-reference $(OUT)/crossval/bn-compare-logits
CLI_TESTS := $(call src,tests/cli/*.sh)
FUZZERS := $(patsubst tests/fuzz/%.c,$(OUT)/tests/fuzz/%,$(call src,tests/fuzz/fuzz_*.c))
REPLAYS := $(patsubst $(OUT)/tests/fuzz/%,$(OUT)/tests/fuzz/replay_%,$(FUZZERS))
C_FILES := $(call src,$(foreach d,engine kernels opencl lab hub mpi train tools tests examples,\
    $(d)/*.[ch] $(d)/*/*.[ch] $(d)/*/*/*.[ch]))

.SUFFIXES:
.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all help deps demo reference bridges crossval-npm train-kills retrain-check check check-fast run-tests run-lint fuzz fuzz-run fuzz-replay test lint \
    build-tests check-deep docs format check-headers bench cover repro dist packages install install-files uninstall clean distclean FORCE

# The oracle is of use to everybody who compares; without a C++ compiler the rest is built.
ORACLE := $(if $(shell command -v $(firstword $(CXX))),$(OUT)/crossval/bn-reference)

# What bn-crossval setup runs: the script, and the bridges that it compiles or installs.
SETUP := $(addprefix $(OUT)/,crossval/setup.sh $(call src,crossval/bridges/*.mjs crossval/bridges/*/*))
$(SETUP): $(OUT)/%: %
	$(Q)$(INSTALL) -D -m $(if $(filter %.sh,$@),755,644) $< $@

all: $(LIBS) $(SHARED) $(PROGRAMS) $(PLUGIN) $(ORACLE) $(SETUP) ## library and programs (the default)
ifeq ($(BLAS),0)
	@echo "note: bn-train is not built: openblas not found by $(PKG_CONFIG) (Debian: libopenblas-dev)" >&2
endif

help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' Makefile packaging/build.mk | sed -E 's/:[^#]*## /\t/' | sort | \
	    awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'

# A build without -j takes all processors.
ALL_CPUS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

deps: ## install the Debian packages for building (check, lint and fuzz install theirs)
	@ci/install-packages.sh build

# ---- building ------------------------------------------------------------------------------------------------

# A library that is missing is named before the compiler stumbles over it.
packages:
	@for p in $(PACKAGES); do $(PKG_CONFIG) --exists $$p || { \
	    echo "error: $$p not found by $(PKG_CONFIG); 'make deps' installs what is missing" >&2; exit 1; }; done

# Objects are rebuilt when the flags change.
FLAGS_LINE = $(CC) $(BN_CPPFLAGS) $(CPPFLAGS) $(BN_CFLAGS) $(CFLAGS) $(BN_LDFLAGS) $(LDFLAGS) \
    $(CXX) $(BN_CXXFLAGS) $(CXXFLAGS)
$(OUT)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS_LINE)' | cmp -s - $@ || echo '$(FLAGS_LINE)' > $@

# The commit that this was built from, and how; rewritten only when it changes.
USER_FLAGS = $(strip $(CPPFLAGS) $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN)) $(if $(LTO),-flto) $(if $(COVER),--coverage))
$(OUT)/build_info.h: FORCE
	@mkdir -p $(@D); sh ci/build-info.sh "$(CC)" '$(USER_FLAGS)' > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(OUT)/%.o: %.c $(OUT)/flags Makefile | packages
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(OUT)/%.o: %.S $(OUT)/flags
	$(SAY) AS $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(BN_CPPFLAGS) $(HARDEN_AS) -MMD -MP -c -o $@ $<

$(call obj,lab/receipt/*.c tools/cli/*.c tools/cli/program/*.c tools/crossval/*.c): | $(OUT)/build_info.h

$(LIB): $(LIB_OBJ)
$(LAB): $(LAB_OBJ)
$(HUB): $(HUB_OBJ)
$(RANKS): $(RANKS_OBJ)
$(TRAIN): $(TRAIN_OBJ)
$(CLI_LIB): $(CLI_OBJ)
$(LIBS) $(TRAIN) $(CLI_LIB):
	$(SAY) AR $@
	$(Q)rm -f $@; $(AR) rcsD $@ $^

# What the library itself needs.
SHARED_PACKAGES := libcrypto libpcre2-8
$(SHARED): engine/bn.map $(LIB_OBJ)
	$(SAY) LD $@
	$(Q)$(CC) -shared $(filter-out -pie,$(BN_LDFLAGS)) $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) \
	    -Wl,--version-script=engine/bn.map $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.o,$^) \
	    $(shell $(PKG_CONFIG) --libs $(SHARED_PACKAGES)) -lm $(LDLIBS)
	$(Q)ln -sf $(notdir $@) $(OUT)/$(SONAME); ln -sf $(SONAME) $(OUT)/libbn.so

# What pkg-config says of the library, for the place where it is installed.
define PC
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$(INCLUDEDIR)

Name: bn
Description: run ternary (1.58-bit, BitNet) language models
Version: $(VERSION)
Libs: -L$${libdir} -lbn
Libs.private: -lm -pthread
Requires.private: $(SHARED_PACKAGES)
Cflags: -I$${includedir}
endef

LINK = $(CC) $(BN_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(BN_LDLIBS) $(LDLIBS)

# The one file that includes mpi.h. Programs that mpirun started load it.
$(OUT)/bn-mpi.so: mpi/plugin.c $(OUT)/flags Makefile
	$(SAY) LD $@
	@mkdir -p $(OUT)/mpi
	$(Q)$(CC) -shared -I. $(CPPFLAGS) -std=c11 $(filter-out -Wcast-qual -Wpedantic -Wstrict-prototypes,$(WARNINGS)) \
	    $(if $(WERROR),-Werror) $(CFLAGS) -fPIC $(HARDEN) -fvisibility=hidden -ffile-prefix-map="$(CURDIR)=." -MMD -MP \
	    -MF $(OUT)/mpi/plugin.d $(filter-out -pie,$(HARDEN_LD)) $(LDFLAGS) -o $@ $< \
	    $(shell $(PKG_CONFIG) --cflags --libs $(MPI_PACKAGE))

# A program is tools/bn-x.c, what lies in tools/x/, and what it uses of the things that all programs share.
define program
$(OUT)/$(1): $(OUT)/tools/$(1).o $(call obj,$(foreach d,tools/$(1:bn-%=%),$(d)/*.[cS] $(d)/*/*.[cS])) \
    $(if $(filter bn-train,$(1)),$(TRAIN)) $(CLI_LIB) $(LIBS)
	$$(SAY) LD $$@
	$$(Q)$$(LINK)
endef
$(foreach t,$(TOOLS),$(eval $(call program,$(t))))
BLAS_LIBS = $(shell $(PKG_CONFIG) --libs openblas)
$(OUT)/bn-train: BN_LDLIBS += $(BLAS_LIBS)
# The kernels of devices, in one text; a compiler's messages name the file.
$(OUT)/kernels/opencl.cl: $(call src,kernels/opencl/common.cl) $(filter-out %/common.cl,$(call src,kernels/opencl/*.cl)) Makefile
	@mkdir -p $(@D)
	$(Q)for f in $(filter %.cl,$^); do echo "#line 1 \"$${f##*/}\"" && cat $$f || exit 1; done > $@
$(OUT)/opencl/source.o: $(OUT)/kernels/opencl.cl
# The default model; a program carries it when it calls bn_cli_open_model.
$(OUT)/tools/cli/default_model.o: fixtures/built-in-i2_s.gguf
$(OUT)/hub/names/registry_data.o: hub/names/registry.json
$(OUT)/tools/crossval/thresholds.o: crossval/thresholds.json
$(OUT)/tools/bench/history/thresholds.o: baselines/thresholds.json
$(OUT)/tools/cli/validation_text.o: fixtures/validation.txt
$(OUT)/lab/report/page_style.o: lab/report/page.css lab/report/page.js
$(OUT)/lab/stacks/svg_parts.o: lab/stacks/flame.css lab/stacks/flame.js
$(OUT)/tools/serve/page/page_parts.o: $(call src,tools/serve/page/*.css tools/serve/page/*.js tools/serve/page/*.html)

# ---- tests ---------------------------------------------------------------------------------------------------

# The independent reference, and the comparison of logits, which only tests need.
$(OUT)/crossval/%.o: crossval/%.cpp $(OUT)/flags
	$(SAY) CXX $<
	@mkdir -p $(@D)
	$(Q)$(CXX) $(BN_CXXFLAGS) $(CXXFLAGS) -c -o $@ $<

$(OUT)/crossval/bn-reference: $(call obj,crossval/reference/*.cpp)
$(OUT)/crossval/bn-compare-logits: $(call obj,crossval/compare/*.cpp)
$(REFERENCE):
	$(SAY) LD $@
	$(Q)$(CXX) $(BN_CXXFLAGS) $(CXXFLAGS) $(HARDEN_LD) $(LDFLAGS) -o $@ $^

# Programs that only tests use.
include tests/build.mk

demo: deps ## build, then run the main job and explain it in ten lines
	@$(MAKE) --no-print-directory $(ALL_CPUS) all >/dev/null
	@ci/demo.sh $(OUT)

fuzz: ## run all fuzz targets, FUZZ_SECONDS (60) each, by clang with sanitizers
	@ci/deep.sh fuzz
FUZZ_TARGETS = $(notdir $(FUZZERS))
fuzz-run: $(FUZZ_TARGETS:%=$(OUT)/tests/fuzz/%) $(OUT)/bn-fixtures
	@OUT=$(OUT) tests/fuzz/run.sh $(FUZZ_TARGETS:%=$(OUT)/tests/fuzz/%)
fuzz-replay: $(REPLAYS) ## run the fuzz targets over the fixtures and known inputs
	@OUT=$(OUT) tests/run.sh $(REPLAYS)

check: ## run every test; the last line counts them
	@ci/install-packages.sh build test
	@$(MAKE) --no-print-directory $(ALL_CPUS) run-tests

reference: $(REFERENCE) ## the independent oracle and the comparison of logits

crossval-npm: $(PROGRAMS) $(REFERENCE) ## compare with llama.cpp, serve OpenAI's client (packages from npm)
	@export OUT=$(OUT) BN_BRIDGE_DIR=$(OUT)/crossval; BN_NPM_INSTALL=1 tests/cli/crossval_npm.sh && \
	  tests/cli/convert_npm.sh && tests/cli/embed.sh && BN_NPM_INSTALL=1 tests/cli/serve_npm.sh

train-kills: $(PROGRAMS) ## kill a training run 200 times at random moments; its checkpoint survives
	@BN_KILLS=200 OUT=$(OUT) tests/cli/train.sh

retrain-check: $(PROGRAMS) ## repeat the first steps of the built-in model's training; the bits must be the recorded ones
	@BN_TRAIN=$(OUT)/bn-train train/recipes/retrain-check.sh

# Engines of llama.cpp's family, against trees that are built already: README of crossval/bridges/llama.cpp.
BRIDGE_DIRS = $(BITNET_CPP_DIR) $(LLAMA_CPP_DIR) $(IK_LLAMA_CPP_DIR)
bridges: ## bridges to the engines in BITNET_CPP_DIR, LLAMA_CPP_DIR, IK_LLAMA_CPP_DIR
	@$(if $(strip $(BRIDGE_DIRS)),:,echo "set one of BITNET_CPP_DIR, LLAMA_CPP_DIR, IK_LLAMA_CPP_DIR"; exit 2)
	@$(foreach d,$(BRIDGE_DIRS),$(MAKE) --no-print-directory -C crossval/bridges/llama.cpp \
	    LLAMA_DIR=$(abspath $(d)) OUT=$(abspath $(OUT))/crossval &&) :

check-fast: ## run the tests that are not in tests/slow.txt: a minute and a half on two processors
	@ci/install-packages.sh build test
	@$(MAKE) --no-print-directory $(ALL_CPUS) TESTS='$(filter-out $(SLOW_TESTS),$(ALL_TESTS))' run-tests

# Those that take long begin, so that no processor is idle at the end.
SLOW_TESTS = $(foreach t,$(shell grep -v '^\#' tests/slow.txt),$(filter %/$(t) %/$(t).sh,$(ALL_TESTS)))
ALL_TESTS = $(CLI_TESTS) $(UNIT_TESTS) $(CHECKKERN) $(REPLAYS)
TESTS = $(SLOW_TESTS) $(filter-out $(SLOW_TESTS),$(ALL_TESTS))
build-tests: all $(REFERENCE) $(UNIT_TESTS) $(CHECKKERN) $(REPLAYS) $(HTTPD) $(SAMPLED) $(FAULTS)
run-tests: build-tests
	@OUT=$(OUT) CC="$(CC)" tests/run.sh $(TESTS)

test: check

bench: $(OUT)/bn-bench ## time every kernel
	@$(OUT)/bn-bench kernels

cover: ## the lines that the tests run, file by file, and whether they are enough
	@ci/deep.sh cover

# Each part alone: ci/deep.sh PART.
check-deep: ## compilers, sanitizers, valgrind, fuzzing, coverage, clang-tidy; hours
	@ci/deep.sh all

# ---- style and structure -------------------------------------------------------------------------------------

lint: ## formatting, static analysis, include rules, wording, generated pages
	@ci/install-packages.sh build lint
	@$(MAKE) --no-print-directory $(ALL_CPUS) run-lint

run-lint: check-headers $(PROGRAMS)
	@OUT=$(OUT) ci/lint.sh

docs: $(PROGRAMS) ## docs/reference/bn*.md, from the programs' option tables
	@ci/docs.sh reference $(OUT) docs

format: ## apply .clang-format
	clang-format -i $(C_FILES) $(call src,kernels/opencl/*.cl crossval/reference/*.[ch]pp crossval/compare/*.cpp crossval/bridges/*/*.[ch]pp)

# Those of one instruction set compile with its files only.
check-headers: ## every header compiles alone; bn.h as C++ too
	@for h in $(filter-out kernels/x86/% tests/% examples/% $(if $(filter 0,$(OPENCL)),opencl/%),$(filter %.h,$(C_FILES))); do \
	    $(CC) $(BN_CPPFLAGS) -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c $$h || exit 1; done
	@$(CXX) -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ engine/bn.h

# ---- installing ----------------------------------------------------------------------------------------------

MAN1DIR = $(DESTDIR)$(MANDIR)/man1
MAN7DIR = $(DESTDIR)$(MANDIR)/man7
BASHDIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# The documents that a person reads; the reference pages of programs are their man pages.
EXAMPLES := $(call src,examples/*.c examples/*.py)
PYTHON := $(call src,packaging/python/bn/*.py packaging/python/bn/py.typed)
DOCS := README.md LICENSE SECURITY.md CHANGELOG.md docs/verified.png \
    $(call src,docs/*.md docs/howto/*.md docs/explain/*.md docs/reference/*.md)

install: all ## into DESTDIR, PREFIX, BINDIR, LIBDIR, LIBEXECDIR, INCLUDEDIR, MANDIR, DOCDIR
	@$(MAKE) --no-print-directory install-files

# What is built already.
install-files:
	@ci/docs.sh pages $(OUT) $(OUT)/pages
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR) $(DESTDIR)$(INCLUDEDIR) $(MAN1DIR) $(MAN7DIR) $(BASHDIR) \
	    $(ZSHDIR) $(FISHDIR)
	$(INSTALL) -m 755 $(PROGRAMS) $(DESTDIR)$(BINDIR)
	$(if $(ORACLE),$(INSTALL) -D -m 755 $(ORACLE) $(DESTDIR)$(LIBEXECDIR)/bn/bn-reference)
	$(INSTALL) -d $(DESTDIR)$(LIBEXECDIR)/bn
	cp -R $(OUT)/crossval/setup.sh $(OUT)/crossval/bridges $(DESTDIR)$(LIBEXECDIR)/bn
	for f in $(DOCS) $(EXAMPLES); do $(INSTALL) -D -m 644 $$f $(DESTDIR)$(DOCDIR)/$$f || exit 1; done
	$(INSTALL) -d $(DESTDIR)$(DOCDIR)/examples/bn
	$(INSTALL) -m 644 $(PYTHON) $(DESTDIR)$(DOCDIR)/examples/bn
	$(INSTALL) -m 644 $(LIB) $(DESTDIR)$(LIBDIR)/libbn.a
	$(INSTALL) -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)
	$(if $(PLUGIN),$(INSTALL) -D -m 755 $(PLUGIN) $(DESTDIR)$(LIBDIR)/bn/bn-mpi.so)
	ln -sf libbn.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME); ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libbn.so
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig
	$(file >$(OUT)/bn.pc,$(PC))
	$(INSTALL) -m 644 $(OUT)/bn.pc $(DESTDIR)$(LIBDIR)/pkgconfig/bn.pc
	$(INSTALL) -m 644 engine/bn.h $(DESTDIR)$(INCLUDEDIR)/bn.h
	$(INSTALL) -m 644 $(TOOLS:%=$(OUT)/pages/man/%.1) $(MAN1DIR)
	$(INSTALL) -m 644 docs/man/bn.7 $(MAN7DIR)
	for t in $(TOOLS); do $(INSTALL) -m 644 tools/cli/completions/bn.bash $(BASHDIR)/$$t && \
	    $(INSTALL) -m 644 tools/cli/completions/bn.fish $(FISHDIR)/$$t.fish || exit 1; done
	$(INSTALL) -m 644 tools/cli/completions/_bn $(ZSHDIR)

uninstall: ## remove what install wrote
	rm -f $(TOOLS:%=$(DESTDIR)$(BINDIR)/%) $(addprefix $(DESTDIR)$(LIBDIR)/,libbn.a libbn.so $(SONAME) \
	    $(notdir $(SHARED)) bn/bn-mpi.so pkgconfig/bn.pc) $(DESTDIR)$(INCLUDEDIR)/bn.h \
	    $(TOOLS:%=$(MAN1DIR)/%.1) $(MAN7DIR)/bn.7 $(TOOLS:%=$(BASHDIR)/%) $(ZSHDIR)/_bn \
	    $(TOOLS:%=$(FISHDIR)/%.fish) $(DESTDIR)$(LIBEXECDIR)/bn/bn-reference \
	    $(SETUP:$(OUT)/crossval/%=$(DESTDIR)$(LIBEXECDIR)/bn/%)
	rm -f $(addprefix $(DESTDIR)$(DOCDIR)/,$(DOCS) $(EXAMPLES) $(PYTHON:packaging/python/%=examples/%))

repro: ## build twice, in two folders, and compare the bytes
	@packaging/twice.sh programs

# Packages.
include packaging/build.mk

clean: ## remove build/
	rm -rf $(BUILD)

distclean: clean ## the same as clean

-include $(wildcard $(OUT)/*/*.d $(OUT)/*/*/*.d $(OUT)/*/*/*/*.d)
