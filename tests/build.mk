# SPDX-License-Identifier: MIT
# Included by the Makefile: the programs that tests need, besides one unit test for each tests/unit/*/*.c.

$(OUT)/tests/unit/%: $(OUT)/tests/unit/%.o $(OUT)/tests/unit/main.o $(CLI_LIB) $(LIBS)
	$(SAY) LD $@
	$(Q)$(LINK) -lcmocka
# Tests of generated files link what generates them.
$(OUT)/tests/unit/tools/test_fixtures $(OUT)/tests/unit/engine/test_architectures \
$(OUT)/tests/unit/engine/test_divided: $(call obj,tools/fixtures/*.c)
# The corpus of bad files.
$(OUT)/tests/corpus/cases.tsv: tests/corpus/make.py
	$(Q)python3 $< $(@D)
$(OUT)/tests/unit/engine/test_gguf_bad: | $(OUT)/tests/corpus/cases.tsv
# What bn-bench believes is tested with kernels, samples, sessions and work that are wrong.
$(addprefix $(OUT)/tests/unit/tools/,test_bench test_bench_check test_ab test_suites): \
    $(call obj,tools/bench/*.[cS] tools/bench/*/*.[cS])

# The numbers and lines of bn-bench top.
$(OUT)/tests/unit/tools/test_top: $(call obj,tools/bench/top/frame.c \
    tools/bench/top/refresh.c tools/bench/top/rows.c)

$(OUT)/tests/unit/lab/test_measure: $(call obj,tools/git/*.c)

# Rungs of bn-crossval with results that are wrong.
$(OUT)/tests/unit/tools/test_crossval: $(call obj,tools/crossval/*.[cS])

# Tests of the progress bar of bn-download.
$(OUT)/tests/unit/hub/test_hub: $(call obj,tools/download/show.c)

# Readers and packers of bn-convert.
$(OUT)/tests/unit/tools/test_convert $(OUT)/tests/fuzz/fuzz_safetensors $(OUT)/tests/fuzz/replay_fuzz_safetensors: \
    $(call obj,tools/convert/*.c)

# Requests to bn-serve: bodies, heads.
SERVE_OBJ := $(call obj,tools/serve/*.c tools/serve/*/*.[cS])
$(OUT)/tests/fuzz/fuzz_request $(OUT)/tests/fuzz/replay_fuzz_request: \
    $(SERVE_OBJ) $(CLI_LIB)
$(OUT)/tests/fuzz/fuzz_head $(OUT)/tests/fuzz/replay_fuzz_head: $(SERVE_OBJ) $(CLI_LIB)

# Training; and in binary64, where finite differences check the gradients.
TRAIN64_OBJ := $(patsubst %,$(OUT)/train64/%.o,gemm ops weights pass)
$(OUT)/train64/%.o: train/%.c $(OUT)/flags Makefile
	$(SAY) CC $@
	@mkdir -p $(@D)
	$(Q)$(CC) -DBN_TRAIN_F64 $(ALL_CFLAGS) -c -o $@ $<
TRAIN_TESTS := $(patsubst %.c,$(OUT)/%,$(call src,tests/unit/train/*.c))
$(OUT)/tests/unit/train/test_gradients: $(TRAIN64_OBJ)
$(OUT)/tests/unit/train/test_gradients.o: BN_CPPFLAGS += -DBN_TRAIN_F64
$(filter-out %/test_gradients,$(TRAIN_TESTS)): $(TRAIN_OBJ)
$(TRAIN_TESTS): BN_LDLIBS += $(BLAS_LIBS)

# The fair queue of bn-serve, and the choice of its models.
$(OUT)/tests/unit/tools/test_serve_queue: $(OUT)/tools/serve/queue.o
$(OUT)/tests/unit/tools/test_serve_models: $(SERVE_OBJ) $(CLI_LIB)

# The configuration files of bn-bench suite.
$(OUT)/tests/fuzz/fuzz_suite $(OUT)/tests/fuzz/replay_fuzz_suite: \
    $(call obj,tools/bench/*.[cS] tools/bench/*/*.[cS]) $(CLI_LIB)

# Files that have names of every kind, and a call chain without frame pointers, for the names of addresses.
SYMBOL_FILES := $(addprefix $(OUT)/tests/symbols/,pie fixed static library.so)
$(OUT)/tests/symbols/pie: LINKED := -fPIE -pie
$(OUT)/tests/symbols/fixed: LINKED := -fno-pie -no-pie
$(OUT)/tests/symbols/static: LINKED := -fno-pie -static
$(OUT)/tests/symbols/library.so: LINKED := -fPIC -shared
$(addprefix $(OUT)/tests/symbols/,pie fixed static): tests/symbols/program.c
$(OUT)/tests/symbols/library.so: tests/symbols/library.c
$(SYMBOL_FILES): $(OUT)/flags
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -g -O2 -Wall -Wextra $(LINKED) -Wl,--build-id -o $@ $(filter %.c,$^)
$(OUT)/tests/symbols/chain.o: KERNEL_FLAGS := -O2 -fomit-frame-pointer -fno-optimize-sibling-calls $(if $(SAN),-fno-sanitize=all)
$(addprefix $(OUT)/tests/unit/stacks/,test_symbols test_unwind): $(OUT)/tests/symbols/chain.o | $(SYMBOL_FILES)

# A web server that misbehaves, for the tests of bn-download.
HTTPD := $(OUT)/tests/httpd/httpd
$(HTTPD): $(OUT)/tests/httpd/httpd.o
	$(SAY) LD $@
	$(Q)$(CC) $(BN_LDFLAGS) $(LDFLAGS) -o $@ $^ -lpthread

# A terminal, and somebody who types on it.
PTY := $(OUT)/tests/pty/pty
$(PTY): $(OUT)/tests/pty/pty.o
	$(SAY) LD $@
	$(Q)$(CC) $(BN_LDFLAGS) $(LDFLAGS) -o $@ $^
build-tests: $(PTY)

# Makes calls fail, in the programs and in the libraries that they use.
FAULTS := $(OUT)/tests/faults/faults.so
$(FAULTS): tests/faults/faults.c $(OUT)/flags
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -Wall -Wextra $(if $(WERROR),-Werror) -O2 -fPIC -shared -o $@ $< -ldl

# Tries what a sandbox refuses, in the programs.
PROBE := $(OUT)/tests/sandbox/probe.so
$(PROBE): tests/sandbox/probe.c $(OUT)/flags
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -Wall -Wextra $(if $(WERROR),-Werror) -O2 -fPIC -shared -o $@ $< -ldl
build-tests: $(PROBE)

# Programs whose stacks are known, for the tests of samplers: frame pointers, no calls turned into jumps, no sanitizers.
SAMPLED := $(addprefix $(OUT)/tests/sampled/,split calls nofp crash fixed)
SAMPLED_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) $(if $(WERROR),-Werror) -g -O1 -fPIE -fno-omit-frame-pointer \
    -fno-optimize-sibling-calls $(if $(filter x86_64,$(ARCH)),-mno-omit-leaf-frame-pointer) \
    -ffile-prefix-map="$(CURDIR)=." -MMD -MP
$(OUT)/tests/sampled/%.o: tests/sampled/%.c $(OUT)/flags Makefile
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(SAMPLED_CFLAGS) -c -o $@ $<
$(OUT)/tests/sampled/nofp_middle.o: SAMPLED_CFLAGS += -fomit-frame-pointer
$(OUT)/tests/sampled/nofp: $(OUT)/tests/sampled/nofp_middle.o
$(SAMPLED): %: %.o
	$(SAY) LD $@
	$(Q)$(CC) -pie -o $@ $^

$(CHECKKERN): $(call obj,tests/checkkern/*.c) $(KERNEL_OBJ)
	$(SAY) LD $@
	$(Q)$(CC) $(BN_LDFLAGS) $(LDFLAGS) -o $@ $^ -lm

# A fuzz target alone, for libFuzzer; and with a main that replays files, for any compiler.
$(FUZZERS): %: %.o $(LIBS)
	$(SAY) LD $@
	$(Q)$(LINK) -fsanitize=fuzzer
$(REPLAYS): $(OUT)/tests/fuzz/replay_%: $(OUT)/tests/fuzz/%.o $(OUT)/tests/fuzz/replay.o $(LIBS)
	$(SAY) LD $@
	$(Q)$(LINK)

# Runs a command in which system calls are refused, for the tests of samplers.
DENY_PERF := $(OUT)/tests/sampled/deny_perf
$(DENY_PERF): tests/sampled/deny_perf.c $(OUT)/flags
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(if $(WERROR),-Werror) -o $@ $<
build-tests: $(DENY_PERF)

# The calls of ranks, and the faults of ranks, under mpirun.
RANKS_TEST := $(OUT)/tests/mpi/ranks
$(RANKS_TEST): $(OUT)/tests/mpi/ranks.o $(CLI_LIB) $(LIBS)
	$(SAY) LD $@
	$(Q)$(LINK)
build-tests: $(RANKS_TEST)

# Conversations by the line, which another program checks.
CHAT_TEST := $(OUT)/tests/chat/chat
$(CHAT_TEST): $(OUT)/tests/chat/chat.o $(CLI_LIB) $(LIBS)
	$(SAY) LD $@
	$(Q)$(LINK)
build-tests: $(CHAT_TEST)

# A long run of bn-serve, outside of `make check`.
SOAK_REQUESTS ?= 10000
.PHONY: soak-serve
soak-serve: $(OUT)/bn-serve
	@python3 tests/soak/serve.py $(OUT) fixtures/nano-bitnet-b1.58-i2_s-42.gguf $(SOAK_REQUESTS)
