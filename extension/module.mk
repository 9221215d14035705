# The server module and the extension files, by PGXS. Called by the Makefile from build/module, so that nothing is written
# beside the sources; every path is relative, so that a clone may lie in a folder with blanks in its name.
TOP := ../..

EXTENSIONS := $(notdir $(basename $(wildcard $(TOP)/extension/*.control)))
MODULE_big := pawl
SOURCES := $(sort $(wildcard $(TOP)/src/core/*.cpp $(TOP)/src/pg/*.cpp $(TOP)/src/*.cpp))
OBJS := $(SOURCES:$(TOP)/%.cpp=obj/%.o)

version = $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(TOP)/extension/$(1).control)
INSTALL_SCRIPTS := $(foreach e,$(EXTENSIONS),../extension/$(e)--$(call version,$(e)).sql)
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
override CPPFLAGS := -I$(TOP)/src $(SYSTEM_INCLUDES:%=-isystem %) $(filter-out -I. -I$(srcdir) $(SYSTEM_INCLUDES:%=-I%),$(CPPFLAGS))
# Since 16 the server says itself that PGDLLEXPORT means "visible"; 15 leaves it empty.
ifeq ($(shell test '$(MAJORVERSION)' -lt 16 && echo old),old)
override CPPFLAGS += '-DPGDLLEXPORT=__attribute__((visibility("default")))'
endif
override CXXFLAGS += -std=c++20 -O2 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra -Werror -Wno-register
# Enough for a debugger's backtrace; DEBUG_INFO=-g for the values of variables, at a third more of compiling.
DEBUG_INFO ?= -g1
# The C++ runtime travels inside and stays hidden: whatever else is loaded into the backend may bring its own.
LINK.shared = $(CXX) $(CXXFLAGS) -shared -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--version-script=$(TOP)/extension/exports.map

# Headers that nearly every file reads are compiled once: C++'s for the core, the server's as well for the rest, so that the core cannot
# see PostgreSQL by accident. PRECOMPILED=no builds without them and shows includes that are missing.
PRECOMPILED ?= yes
CORE_OBJS := $(filter obj/src/core/%,$(OBJS))
SERVER_OBJS := $(filter-out $(CORE_OBJS),$(OBJS))
STANDARD_HEADERS := algorithm array charconv cstdint cstring map memory optional set string string_view unordered_map unordered_set utility vector
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

# An update to the version that is being made takes its functions, triggers, comments and grants from the parts of that version.
../extension/%.sql: $(TOP)/sql/upgrades/%.sql $(wildcard $(TOP)/sql/*/*.sql $(TOP)/sql/*/privileges) $(TOP)/extension/update.awk \
		$(TOP)/extension/privileges.awk $(TOP)/extension/module.mk
	@mkdir -p $(@D)
	@name='$*'; name=$${name%%--*}; for part in $(TOP)/sql/"$$name"/*.sql; do awk -f $(TOP)/extension/update.awk "$$part"; done >$@.parts
	@name='$*'; name=$${name%%--*}; awk -v extension="$$name" -f $(TOP)/extension/privileges.awk $(TOP)/sql/"$$name"/privileges >>$@.parts
	@sed -e '/^-- @parts$$/{r $@.parts' -e 'd}' $< >$@ && rm $@.parts

# sql/<extension>/*.sql in the order of their numbers, behind a line that stops whoever sources the script in psql, and the GRANTs of
# sql/<extension>/privileges.
define install_script
../extension/$(1)--$(call version,$(1)).sql: $(wildcard $(TOP)/sql/$(1)/*.sql $(TOP)/sql/$(1)/*.mmd) $(TOP)/sql/$(1)/privileges $(TOP)/sql/$(1) $(TOP)/extension/module.mk $(TOP)/extension/join.awk $(TOP)/extension/privileges.awk $(TOP)/extension/$(1).control
	@mkdir -p $$(@D)
	@echo "  join     $$(@F)"
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION $(1)" to load this file. \quit'; awk -f $(TOP)/extension/join.awk $(sort $(wildcard $(TOP)/sql/$(1)/*.sql)) /dev/null; \
		awk -v extension=$(1) -f $(TOP)/extension/privileges.awk $(TOP)/sql/$(1)/privileges; } >$$@.new && mv $$@.new $$@
endef
$(foreach e,$(EXTENSIONS),$(eval $(call install_script,$(e))))

.PHONY: force
