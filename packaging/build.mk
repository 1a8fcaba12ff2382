# SPDX-License-Identifier: MIT
# Included by the Makefile: what a release consists of. Each part is made by one target into RELEASE, a folder, of which files are
# released and folders are not. The same commit gives the same bytes: packaging/twice.sh makes a part twice.

RELEASE := $(BUILD)/release
.PHONY: release check-release deb image installer readme-picture site static wheel
# What the scripts read. The time in every archive is that of the commit; not exported: it would stop the clock of programs in tests.
RELEASE_ENV = SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0)) \
    BUILD=$(BUILD) RELEASE=$(RELEASE) VERSION=$(VERSION)

# RELEASE_ARGS: its arguments, --dry-run and others.
release: ## the checklist of a release: checks, packages, digests, provenance
	@packaging/release.sh $(RELEASE_ARGS)

dist: ## reproducible source archive of the commit, bn-VERSION.tar.gz
	@mkdir -p $(RELEASE)
	git archive --format=tar --prefix=bn-$(VERSION)/ \
	    --add-virtual-file=bn-$(VERSION)/VERSION:$$(git rev-parse HEAD) HEAD | gzip -n -9 > $(RELEASE)/bn-$(VERSION).tar.gz

static: ## programs without shared libraries, for x86-64 and arm64 (STATIC_ARCHS)
	@$(RELEASE_ENV) packaging/static/build.sh $(STATIC_ARCHS)

image: ## container images of the static programs, as OCI archives
	@$(RELEASE_ENV) packaging/image/build.sh $(STATIC_ARCHS)

deb: dist ## Debian packages, with a service for bn-serve
	@$(RELEASE_ENV) packaging/debian/build.sh $(RELEASE)/bn-$(VERSION).tar.gz $(RELEASE)

installer: ## install.sh for the releases of the repository at URL, https://...
	@[ -n "$(URL)" ] || { echo "installer: set URL, the address of the repository" >&2; exit 2; }
	@mkdir -p $(RELEASE)
	sed 's|@URL@|$(URL)|' packaging/install.sh > $(RELEASE)/install.sh

site: $(PROGRAMS) ## the documents as a site, with pictures: RELEASE/site, bn-VERSION-site.tar.gz
	@$(RELEASE_ENV) packaging/site/build.sh $(OUT) $(RELEASE) $(VERSION)

readme-picture: site ## docs/verified.png, the picture in README.md
	cp $(RELEASE)/pictures/verified-light.png docs/verified.png

# As root, with Debian's packages at hand. Not part of `make check`. One at a time: they build in the same folders.
check-release: ## make every package twice, install each into a bare system and use it there
	@ci/install-packages.sh build test release
	@$(MAKE) --no-print-directory $(ALL_CPUS) build-tests
	@OUT=$(OUT) JOBS=1 tests/run.sh $(call src,tests/release/*.sh)

# The Python package. Its library and its program need the C library alone: the others are linked into them, and hidden.
WHEEL := $(OUT)/wheel
WHEEL_PACKAGES = $(SHARED_PACKAGES) $(filter libseccomp,$(PACKAGES))
WHEEL_LIBS = -Wl,--exclude-libs,ALL -Wl,-Bstatic $(filter-out -pthread -ldl,$(shell $(PKG_CONFIG) --static --libs $(WHEEL_PACKAGES))) \
    -Wl,-Bdynamic -lm
wheel: $(WHEEL)/libbn.so $(WHEEL)/bn-verify-receipt ## Python package, bn-VERSION-py3-none-manylinux_2_NN_ARCH.whl
	@$(RELEASE_ENV) packaging/python/build.sh $(WHEEL) $(RELEASE)

$(WHEEL)/libbn.so: engine/bn.map $(LIB_OBJ)
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(filter-out -pie,$(BN_LDFLAGS)) $(CFLAGS) $(LDFLAGS) -s -Wl,-soname,$(SONAME) \
	    -Wl,--version-script=engine/bn.map -Wl,-z,defs -o $@ $(filter %.o,$^) $(WHEEL_LIBS) $(LDLIBS)

$(WHEEL)/bn-verify-receipt: $(call obj,tools/bn-verify-receipt.c tools/verify-receipt/*.c) $(CLI_LIB) $(LIBS)
	$(SAY) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -s
$(WHEEL)/bn-verify-receipt: BN_LDLIBS = $(WHEEL_LIBS)
