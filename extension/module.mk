# The server module and the extension files, by PGXS. Called by the Makefile from build/module, so that nothing is
# written beside the sources; every path is relative, so that a clone may lie in a folder with blanks in its name.
TOP := ../..

# The packs that are built in. Without any (make build PACKS=) there is the kernel alone;
# the HTTP API stands on all of them.
PACKS ?= dag bulk saga
ALL_PACKS := dag bulk saga
EXTENSIONS := pawl pawl_test pawl_move $(PACKS:%=pawl_%) $(if $(filter-out $(PACKS),$(ALL_PACKS)),,pawl_api)
MODULE_big := pawl
SOURCES := $(sort $(foreach folder,$(filter-out packs,$(notdir $(patsubst %/,%,$(wildcard $(TOP)/src/*/)))),$(wildcard $(TOP)/src/$(folder)/*.cpp)) \
	$(foreach pack,$(filter pawl_%,$(EXTENSIONS)),$(wildcard $(TOP)/src/packs/$(pack:pawl_%=%)/*.cpp)) \
		$(wildcard $(TOP)/src/*.cpp))
OBJS := $(SOURCES:$(TOP)/%.cpp=obj/%.o)

version = $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(TOP)/extension/$(1).control)
INSTALL_SCRIPTS := $(foreach e,$(EXTENSIONS),../extension/$(e)--$(call version,$(e)).sql)
# The files of an extension in the order in which they are joined.
parts = $(addprefix $(TOP)/sql/$(1)/,$(shell sed 's/ *\#.*//' $(TOP)/sql/$(1)/load_order))
UPGRADES := $(patsubst $(TOP)/sql/upgrades/%,../extension/%,$(wildcard $(TOP)/sql/upgrades/*.sql))
MODULEDIR := extension
DATA_built := $(EXTENSIONS:%=../extension/%.control) $(INSTALL_SCRIPTS) $(UPGRADES)

PGXS := $(shell '$(PG_CONFIG)' --pgxs)
override with_llvm := no
include $(PGXS)
# Built files are not to be looked for among the sources.
VPATH :=

# The server's headers are the server's business: -isystem, so that -Werror speaks of our code only.
SYSTEM_INCLUDES := $(includedir_server) $(includedir_internal)
override CPPFLAGS := -I$(TOP)/src $(SYSTEM_INCLUDES:%=-isystem %) \
	$(filter-out -I. -I$(srcdir) $(SYSTEM_INCLUDES:%=-I%),$(CPPFLAGS))
# Since 16 the server says itself that PGDLLEXPORT means "visible"; 15 leaves it empty.
ifeq ($(shell test '$(MAJORVERSION)' -lt 16 && echo old),old)
override CPPFLAGS += '-DPGDLLEXPORT=__attribute__((visibility("default")))'
endif
override CPPFLAGS += -DPAWL_VERSION='"$(call version,pawl)"'
override CXXFLAGS += -std=c++20 -O2 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra -Werror \
	-Wno-register
# Enough for a debugger's backtrace; DEBUG_INFO=-g for the values of variables, at a third more of compiling.
DEBUG_INFO ?= -g1
# The C++ runtime travels inside and stays hidden: whatever else is loaded into the backend may bring its own.
LINK.shared = $(CXX) $(CXXFLAGS) -shared -static-libstdc++ -Wl,--exclude-libs,ALL \
	-Wl,--version-script=$(TOP)/extension/exports.map

# Headers that nearly every file reads are compiled once: C++'s for the core, the server's as well for the rest, so that
# the core cannot see PostgreSQL by accident. PRECOMPILED=no builds without them and shows includes that are missing.
PRECOMPILED ?= yes
CORE_OBJS := $(filter obj/src/core/% obj/src/packs/saga/saga_%,$(OBJS))
SERVER_OBJS := $(filter-out $(CORE_OBJS),$(OBJS))
STANDARD_HEADERS := algorithm array charconv cstdint cstring map memory optional set string string_view unordered_map \
	unordered_set utility vector
COMPILE = $(CXX) $(CXXFLAGS) $(DEBUG_INFO) $(CPPFLAGS) -MMD -MP

ifeq ($(PRECOMPILED),yes)
$(CORE_OBJS): READ_FIRST := obj/core.hpp
$(CORE_OBJS): obj/core.hpp.gch
$(SERVER_OBJS): READ_FIRST := obj/server.hpp
$(SERVER_OBJS): obj/server.hpp.gch
endif

obj/core.hpp obj/server.hpp: $(TOP)/extension/module.mk
	@mkdir -p $(@D)
	@{ printf '#include <%s>\n' $(STANDARD_HEADERS); [ $(@F) = core.hpp ] || echo '#include "pg/postgres.hpp"'; } >$@

obj/%.hpp.gch: obj/%.hpp
	@echo "  compile  the headers of the $*"
	@$(COMPILE) -MF $@.d -x c++-header -o $@ $<

$(OBJS): obj/%.o: $(TOP)/%.cpp $(TOP)/extension/module.mk
	@mkdir -p $(@D)
	@echo "  compile  $*.cpp"
	@$(COMPILE) $(READ_FIRST:%=-include %) -c -o $@ $<

-include $(OBJS:.o=.d) obj/core.hpp.gch.d obj/server.hpp.gch.d

# A file that was taken away must leave the library too.
objects.list: force
	@echo '$(OBJS)' | cmp -s - $@ || echo '$(OBJS)' >$@
$(shlib): objects.list $(TOP)/extension/exports.map

../extension/%.control: $(TOP)/extension/%.control
	@mkdir -p $(@D)
	@cp $< $@

# An update to the version that is being made takes its functions, triggers, comments and
# grants from the parts of that version.
../extension/%.sql: $(TOP)/sql/upgrades/%.sql \
	$(foreach e,$(EXTENSIONS),$(call parts,$(e)) $(TOP)/sql/$(e)/load_order $(TOP)/sql/$(e)/privileges) \
	$(TOP)/extension/update.awk \
		$(TOP)/extension/privileges.awk $(TOP)/extension/module.mk
	@mkdir -p $(@D)
	@for part in $(call parts,$(firstword $(subst --, ,$*))); do awk -f $(TOP)/extension/update.awk "$$part"; \
		done >$@.parts
	@name='$*'; name=$${name%%--*}; \
		awk -v extension="$$name" -f $(TOP)/extension/privileges.awk $(TOP)/sql/"$$name"/privileges >>$@.parts
	@sed -e '/^-- @parts$$/{r $@.parts' -e 'd}' $< >$@ && rm $@.parts

# The parts of an extension in the order of sql/<extension>/load_order, behind a line that stops psql if it sources the
# script, and the GRANTs of sql/<extension>/privileges.
define install_script
../extension/$(1)--$(call version,$(1)).sql: $(call parts,$(1)) $(wildcard $(TOP)/sql/$(1)/*.mmd) \
	$(TOP)/sql/$(1)/load_order $(TOP)/sql/$(1)/privileges $(TOP)/extension/module.mk $(TOP)/extension/join.awk \
	$(TOP)/extension/privileges.awk $(TOP)/extension/$(1).control
	@mkdir -p $$(@D)
	@echo "  join     $$(@F)"
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION $(1)" to load this file. \quit'; \
		awk -f $(TOP)/extension/join.awk $(call parts,$(1)) /dev/null; \
		awk -v extension=$(1) -f $(TOP)/extension/privileges.awk $(TOP)/sql/$(1)/privileges; } >$$@.new && \
			mv $$@.new $$@
endef
$(foreach e,$(EXTENSIONS),$(eval $(call install_script,$(e))))

.PHONY: force
