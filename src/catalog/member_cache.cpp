// May throw and may ereport. See member_cache.hpp.
#include "catalog/member_cache.hpp"

#include "catalog/catalog.hpp"
#include "catalog/generated.hpp"
#include "catalog/resolve.hpp"
#include "pg/bridge.hpp"

namespace pawl {

CacheListener cache_listener = {};

void report_binding(Oid relation, const char* column, const char* problem) {
    const char* table = get_rel_name(relation);
    report_damage(psprintf("the binding of column \"%s\" of table \"%s\"", column, table == nullptr ? "?" : table),
                  problem);
}

namespace {

HTAB* members = nullptr;  // Oid -> MemberSlot
Member* stale_members = nullptr;
Member* last_found = nullptr;  // a statement asks for the same one again and again
std::uint64_t invalidations = 0;

struct MemberSlot {
    Oid relid;
    Member* member;
};

// A row of pawl.binding, in the memory of the member being built.
struct StoredBinding {
    Oid relation;
    char* column;
    char* machine;
    int version;
    char** keys;
    int nkeys;
    Oid history;
    char* most_recent;
    bool hash_chain;
    char* on_delete;
    bool events;
    bool wake;
    char** trace;
    int ntrace;
    char** results;
    int nresults;
    Oid locked_after;
    bool log_fence;
    Signatures calls;
    Managed* managed;
    StoredBinding* next;
};

struct Collected {
    StoredBinding* first = nullptr;
    int n = 0;
};

void visit_binding(const CatalogRow& row, void* argument) {
    auto* collected = static_cast<Collected*>(argument);
    auto* stored = static_cast<StoredBinding*>(palloc0(sizeof(StoredBinding)));
    stored->relation = row.oid("relation");
    stored->column = row.required("state_column");
    stored->machine = row.required("machine");
    stored->version = row.integer("version");
    stored->keys = row.strings("key_columns", &stored->nkeys);
    stored->history = row.oid("history");
    stored->most_recent = row.required("most_recent");
    stored->hash_chain = row.boolean("hash_chain");
    stored->on_delete = row.required("on_delete");
    stored->events = row.has("events") && row.boolean("events");  // not in the SQL objects of an earlier version
    stored->wake = row.has("wake") && row.boolean("wake");
    if (row.has("trace_columns")) stored->trace = row.strings("trace_columns", &stored->ntrace);
    if (row.has("result_columns")) stored->results = row.strings("result_columns", &stored->nresults);
    if (row.has("locked_after")) stored->locked_after = row.oid("locked_after");
    stored->log_fence = row.has("log_fence") && row.boolean("log_fence");
    if (row.has("calls")) stored->calls.items = row.strings("calls", &stored->calls.n);
    stored->calls.known = stored->calls.items != nullptr;
    stored->managed = read_managed(row);
    stored->next = collected->first;
    collected->first = stored;
    ++collected->n;
}

// The relation itself and everything it inherits from, by partitioning or by inheritance.
List* with_ancestors(Oid relid) {
    List* found = list_make1_oid(relid);
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    for (int i = 0; i < list_length(found); ++i) {
        ScanKeyData key;
        ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
                    ObjectIdGetDatum(list_nth_oid(found, i)));
        SysScanDesc scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, nullptr, 1, &key);
        HeapTuple tuple;
        while (HeapTupleIsValid(tuple = systable_getnext(scan)))
            found = list_append_unique_oid(found, reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple))->inhparent);
        systable_endscan(scan);
    }
    table_close(inherits, AccessShareLock);
    return found;
}

[[noreturn]] void report_binding(const StoredBinding& stored, const char* problem) {
    pawl::report_binding(stored.relation, stored.column, problem);
}

AttrNumber attribute_of(Relation relation, const char* column) {
    AttrNumber attribute = get_attnum(RelationGetRelid(relation), column);
    if (attribute < 0)
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                        errmsg("column \"%s\" of enforced table \"%s\" is a system column", column,
                               RelationGetRelationName(relation)),
                        errhint("SELECT * FROM pawl.health();")));
    if (attribute == InvalidAttrNumber)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_COLUMN),
                 errmsg("column \"%s\" of enforced table \"%s\" is missing", column, RelationGetRelationName(relation)),
                 errhint("SELECT * FROM pawl.health();")));
    return attribute;
}

// The columns of a partition key, those inside its expressions included.
void add_partition_columns(Relation child, Oid parent_oid, Bitmapset** columns) {
    Relation parent = table_open(parent_oid, AccessShareLock);
    PartitionKey key = RelationGetPartitionKey(parent);
    Bitmapset* attributes = nullptr;
    for (int i = 0; i < get_partition_natts(key); ++i)
        if (get_partition_col_attnum(key, i) != 0)
            attributes =
                bms_add_member(attributes, get_partition_col_attnum(key, i) - FirstLowInvalidHeapAttributeNumber);
    pull_varattnos(reinterpret_cast<Node*>(get_partition_exprs(key)), 1, &attributes);
    int member = -1;
    while ((member = bms_next_member(attributes, member)) >= 0) {
        AttrNumber in_parent = static_cast<AttrNumber>(member + FirstLowInvalidHeapAttributeNumber);
        if (in_parent == 0) {  // a whole-row reference: any column may move the row
            for (int i = 1; i <= RelationGetNumberOfAttributes(child); ++i) *columns = bms_add_member(*columns, i);
        } else if (in_parent > 0) {
            char* name = get_attname(parent_oid, in_parent, false);
            *columns = bms_add_member(*columns, attribute_of(child, name));
        }
    }
    table_close(parent, AccessShareLock);
}

void read_partition_columns(Relation relation, Member* member) {
    if (!relation->rd_rel->relispartition) return;
    Bitmapset* columns = nullptr;
    ListCell* cell;
    foreach (cell, get_partition_ancestors(RelationGetRelid(relation)))
        add_partition_columns(relation, lfirst_oid(cell), &columns);
    member->partition_keys = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * Max(bms_num_members(columns), 1)));
    int column = -1;
    while ((column = bms_next_member(columns, column)) >= 0)
        member->partition_keys[member->npartition_keys++] = static_cast<AttrNumber>(column);
}

// PostgreSQL fires triggers in the order of their names: ours is the last word when no BEFORE UPDATE trigger sorts
// after it.
bool judge_fires_last(Relation relation, Oid judge_function) {
    TriggerDesc* triggers = relation->trigdesc;
    if (triggers == nullptr) return false;
    bool seen = false;
    for (int i = 0; i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_ROW, TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_UPDATE)) continue;
        if (trigger.tgfoid == judge_function)
            seen = true;
        else if (seen)
            return false;
    }
    return seen;
}

bool has_after_update(Relation relation, Oid settle_function) {
    TriggerDesc* triggers = relation->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (trigger.tgfoid == settle_function &&
            TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_ROW, TRIGGER_TYPE_AFTER, TRIGGER_TYPE_UPDATE))
            return true;
    }
    return false;
}

int compare_labels(const void* a, const void* b) {
    Oid left = *static_cast<const Oid*>(a), right = *static_cast<const Oid*>(b);
    return left < right ? -1 : left > right;
}

void read_labels(Binding& binding) {
    CatCList* labels = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(binding.state_type));
    const int n = labels->n_members;
    binding.nlabels = n;
    binding.label_oids = static_cast<Oid*>(palloc(sizeof(Oid) * Max(n, 1)));
    binding.label_states = static_cast<core::StateId*>(palloc(sizeof(core::StateId) * Max(n, 1)));
    for (int i = 0; i < n; ++i)
        binding.label_oids[i] = reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[i]->tuple))->oid;
    qsort(binding.label_oids, n, sizeof(Oid), compare_labels);
    for (int i = 0; i < n; ++i) {
        Form_pg_enum label = reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[i]->tuple));
        for (int j = 0; j < n; ++j)
            if (binding.label_oids[j] == label->oid)
                binding.label_states[j] = binding.machine->machine->find(NameStr(label->enumlabel));
    }
    ReleaseCatCacheList(labels);
}

void read_state_column(Relation relation, const char* column, Binding& binding) {
    binding.state = attribute_of(relation, column);
    binding.state_type = getBaseType(TupleDescAttr(RelationGetDescr(relation), binding.state - 1)->atttypid);
    binding.is_enum = get_typtype(binding.state_type) == TYPTYPE_ENUM;
    if (!binding.is_enum && binding.state_type != TEXTOID && binding.state_type != VARCHAROID)
        ereport(ERROR,
                (errcode(ERRCODE_DATATYPE_MISMATCH),
                 errmsg("column \"%s\" of enforced table \"%s\" cannot hold a state", column,
                        RelationGetRelationName(relation)),
                 errdetail("Its type is %s; a state column is text, varchar, an enum, or a domain over one of them.",
                           format_type_be(binding.state_type))));
    if (binding.is_enum) read_labels(binding);
}

void read_keys(Relation relation, const StoredBinding& stored, Binding& binding) {
    binding.nkeys = stored.nkeys;
    binding.keys = static_cast<KeyColumn*>(palloc0(sizeof(KeyColumn) * Max(stored.nkeys, 1)));
    for (int i = 0; i < stored.nkeys; ++i)
        binding.keys[i] = describe_key_column(relation, attribute_of(relation, stored.keys[i]), stored.keys[i]);
}

// Those that are used for their places in the root, too.
void check_columns(Relation root, const StoredBinding& stored) {
    attribute_of(root, stored.column);
    for (int i = 0; i < stored.nkeys; ++i) attribute_of(root, stored.keys[i]);
    for (int i = 0; stored.managed != nullptr && i < stored.managed->claim_columns.n; ++i)
        attribute_of(root, stored.managed->claim_columns.items[i]);
}

AttrNumber trace_column(Relation relation, const StoredBinding& stored, int n) {
    const AttrNumber attribute = attribute_of(relation, stored.trace[n]);
    const Oid type = getBaseType(TupleDescAttr(RelationGetDescr(relation), attribute - 1)->atttypid);
    if (type != TEXTOID && type != VARCHAROID)
        report_binding(stored, psprintf("Column \"%s\" cannot hold a trace: its type is %s.", stored.trace[n],
                                        format_type_be(type)));
    return attribute;
}

// What can be said of the row without looking at the table.
void check_row(Relation relation, const StoredBinding& stored) {
    const char kind = get_rel_relkind(stored.relation);
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
        report_binding(stored, "It is of a relation that is no table.");
    if (relation->rd_rel->relkind != RELKIND_RELATION && relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        report_binding(stored, psprintf("\"%s\" is no table.", RelationGetRelationName(relation)));
    if (strcmp(stored.most_recent, "stored") != 0 && strcmp(stored.most_recent, "derived") != 0)
        report_binding(stored, psprintf("most_recent is \"%s\".", stored.most_recent));
    if (strcmp(stored.on_delete, "allow") != 0 && strcmp(stored.on_delete, "terminal") != 0 &&
        strcmp(stored.on_delete, "deny") != 0)
        report_binding(stored, psprintf("on_delete is \"%s\".", stored.on_delete));
    if (stored.nkeys >= INDEX_MAX_KEYS) report_binding(stored, psprintf("It has %d key columns.", stored.nkeys));
    if (stored.nkeys == 0 && (OidIsValid(stored.history) || stored.events || stored.managed != nullptr))
        report_binding(stored, "It has no key columns, which a log, events and managed columns need.");
    if (stored.managed != nullptr && stored.managed->claim_columns.n + stored.nkeys >= INDEX_MAX_KEYS)
        report_binding(stored, psprintf("claim_columns has %d columns.", stored.managed->claim_columns.n));
    if (const char* problem = stored.managed == nullptr ? nullptr : managed_problem(*stored.managed))
        report_binding(stored, problem);
}

// Whether a subscription of this database writes the table.
bool is_subscribed(Oid relid) {
    Relation catalog = table_open(SubscriptionRelRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, nullptr, 1, &key);
    const bool found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(catalog, AccessShareLock);
    return found;
}

void read_claimable(Binding& binding) {
    const core::Machine& machine = *binding.machine->machine;
    binding.claimable = static_cast<bool*>(palloc0(sizeof(bool) * machine.states().size()));
    for (std::size_t i = 0; i < machine.transitions().size(); ++i)
        if (binding.managed->roles[i] & role_claims) binding.claimable[machine.transitions()[i].from] = true;
}

void attach(Relation relation, const StoredBinding& stored, Binding& binding) {
    binding.root = stored.relation;
    namestrcpy(&binding.column, stored.column);
    check_row(relation, stored);
    read_state_column(relation, stored.column, binding);
    read_keys(relation, stored, binding);
    binding.log.table = stored.history;
    binding.log.keys = binding.keys;
    binding.log.stored = strcmp(stored.most_recent, "stored") == 0;
    binding.log.hash_chain = stored.hash_chain;
    binding.log_is_replicated = OidIsValid(stored.history) && is_subscribed(stored.history);
    binding.on_delete = strcmp(stored.on_delete, "deny") == 0       ? OnDelete::deny
                        : strcmp(stored.on_delete, "terminal") == 0 ? OnDelete::terminal
                                                                    : OnDelete::allow;
    binding.events = stored.events;
    if (stored.ntrace > 0) binding.traceparent = trace_column(relation, stored, 0);
    if (stored.ntrace > 1) binding.tracestate = trace_column(relation, stored, 1);
    binding.results = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * Max(stored.nresults, 1)));
    for (int i = 0; i < stored.nresults; ++i) {
        const AttrNumber column = attribute_of(relation, stored.results[i]);
        if (TupleDescAttr(RelationGetDescr(relation), column - 1)->atttypid == JSONBOID)
            binding.results[binding.nresults++] = column;
    }
    binding.locked_after = stored.locked_after;
    binding.log_fence = stored.log_fence;
    binding.managed = stored.managed;
    if (binding.managed != nullptr) {
        resolve_managed(*binding.managed, *binding.machine->machine, relation);
        if (const char* problem = column_problem(*binding.managed, binding.state)) report_binding(stored, problem);
    }
    binding.wake = stored.wake && binding.managed != nullptr;
    if (binding.wake) read_claimable(binding);
    Relation root =
        stored.relation == RelationGetRelid(relation) ? relation : table_open(stored.relation, AccessShareLock);
    check_columns(root, stored);
    binding.root_descriptor = CreateTupleDescCopy(RelationGetDescr(root));
    binding.root_descriptor->tdtypeid = root->rd_rel->reltype;
    binding.root_descriptor->tdtypmod = -1;
    if (root != relation) {
        binding.to_root =
            convert_tuples_by_name(CreateTupleDescCopy(RelationGetDescr(relation)), binding.root_descriptor);
        table_close(root, AccessShareLock);
    }
}

void resolve_call(const Binding& binding, const Signatures& signatures, const char* qualified_name, bool guard,
                  Call& call) {
    const Oid row = binding.root_descriptor->tdtypeid;
    const Oid function = find_row_function(qualified_name, row, guard, signatures);
    if (!OidIsValid(function))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_FUNCTION),
                 errmsg("function %s(%s, %s) does not exist", qualified_name, format_type_be(row), format_type_be(row)),
                 errdetail("Machine \"%s\" names it as %s.", binding.machine->name,
                           guard ? "a guard, which returns boolean" : "an effect"),
                 signatures.known ? errhint("A function of other arguments does not take its place; pawl.health() "
                                            "tells which one is missing.")
                                  : 0));
    call.name = pstrdup(qualified_name);
    fmgr_info_cxt(function, &call.function, CurrentMemoryContext);
    // A polymorphic function reads the types of its arguments from the expression that calls it.
    List* nulls = list_make2(makeNullConst(row, -1, InvalidOid), makeNullConst(row, -1, InvalidOid));
    FuncExpr* expression =
        makeFuncExpr(function, get_func_rettype(function), nulls, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
    fmgr_info_set_expr(reinterpret_cast<Node*>(expression), &call.function);
}

void resolve_calls(Binding& binding, const Signatures& signatures) {
    const auto& transitions = binding.machine->machine->transitions();
    binding.calls = static_cast<TransitionCalls*>(palloc0(sizeof(TransitionCalls) * Max(transitions.size(), 1)));
    for (std::size_t i = 0; i < transitions.size(); ++i) {
        TransitionCalls& calls = binding.calls[i];
        calls.nguards = static_cast<int>(transitions[i].guards.size());
        calls.neffects = static_cast<int>(transitions[i].effects.size());
        calls.guards = static_cast<Call*>(palloc0(sizeof(Call) * Max(calls.nguards, 1)));
        calls.effects = static_cast<Call*>(palloc0(sizeof(Call) * Max(calls.neffects, 1)));
        for (int j = 0; j < calls.nguards; ++j)
            resolve_call(binding, signatures, transitions[i].guards[j].c_str(), true, calls.guards[j]);
        for (int j = 0; j < calls.neffects; ++j)
            resolve_call(binding, signatures, transitions[i].effects[j].c_str(), false, calls.effects[j]);
        binding.has_effects |= calls.neffects > 0;
        binding.has_guards |= calls.nguards > 0;
    }
}

bool carries_our_triggers(Relation relation) {
    const Oid judge = own_trigger_function("judge");
    TriggerDesc* triggers = relation->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i)
        if (triggers->triggers[i].tgfoid == judge) return true;
    return false;
}

[[noreturn]] void report_unbound(Relation relation) {
    const char* table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                                   RelationGetRelationName(relation));
    if (!carries_our_triggers(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("no lifecycle is attached to table %s", table),
                        errhint("SELECT pawl.enforce(%s, state_column, machine);", quote_literal_cstr(table))));
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table %s carries triggers of pawl, but no lifecycle", table),
             errdetail("pawl.binding has no row for it; a schema-only restore leaves it so."),
             errhint("Restore the data of pawl.machine and pawl.binding, or attach it again: SELECT pawl.enforce(%s, "
                     "state_column, machine);",
                     quote_literal_cstr(table))));
}

Member* build_member(Relation relation) {
    MemoryContext context = nullptr;
    Member* member = nullptr;
    Collected collected;

    pg::call([&] {
        // Under the caller's context until it is complete: an error on the way then frees it.
        context = AllocSetContextCreate(CurrentMemoryContext, "pawl member", ALLOCSET_SMALL_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(context);
        member = static_cast<Member*>(palloc0(sizeof(Member)));
        member->relid = RelationGetRelid(relation);
        member->context = context;
        ListCell* cell;
        foreach (cell, with_ancestors(member->relid)) scan_bindings_of(lfirst_oid(cell), visit_binding, &collected);
        if (collected.n == 0) report_unbound(relation);
        member->nbindings = collected.n;
        member->bindings = static_cast<Binding*>(palloc0(sizeof(Binding) * collected.n));
        read_partition_columns(relation, member);
        member->validated_before = judge_fires_last(relation, own_trigger_function("judge"));
        member->has_after_trigger = has_after_update(relation, own_trigger_function("settle"));
        MemoryContextSwitchTo(caller);
    });

    int i = 0;
    for (StoredBinding* stored = collected.first; stored != nullptr; stored = stored->next, ++i) {
        member->bindings[i].machine = find_machine(stored->machine, stored->version);
        pg::call([&] {
            MemoryContext caller = MemoryContextSwitchTo(context);
            attach(relation, *stored, member->bindings[i]);
            member->manages_columns |= member->bindings[i].managed != nullptr;
            resolve_calls(member->bindings[i], stored->calls);
            member->has_effects |= member->bindings[i].has_effects;
            member->guards_generated |= member->bindings[i].has_guards && has_generated_columns(relation);
            MemoryContextSwitchTo(caller);
        });
    }
    MemoryContextSetParent(context, TopMemoryContext);
    return member;
}

struct Checked {
    Oid relation;
    const char* column;
    Collected* collected;
};

void visit_checked(const CatalogRow& row, void* argument) {
    auto* checked = static_cast<Checked*>(argument);
    const char* column = row.string("state_column");
    if (column != nullptr && strcmp(column, checked->column) == 0) visit_binding(row, checked->collected);
}

// pawl.invalidate() announces changes of pawl.machine and pawl.binding as relcache events of those tables; their oids
// are looked up when a member is built, because a callback may not.
Oid machine_table = InvalidOid;
Oid binding_table = InvalidOid;

void relation_changed(Datum, Oid relid) {
    ++invalidations;
    if (cache_listener.invalidated != nullptr) cache_listener.invalidated();
    if (!OidIsValid(relid) || relid == machine_table) {
        forget_machines();
        forget_member(InvalidOid);
    } else if (relid == binding_table) {
        forget_member(InvalidOid);
    } else {
        forget_member(relid);
    }
}

// A function or an enum label was created, replaced or dropped: guards, effects and labels are resolved anew.
void object_changed(Datum, int, uint32) {
    ++invalidations;
    forget_member(InvalidOid);
}

void make_member_table() {
    HASHCTL control = {};
    control.keysize = sizeof(Oid);
    control.entrysize = sizeof(MemberSlot);
    control.hcxt = TopMemoryContext;
    members = hash_create("pawl members", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

}  // namespace

void register_cache_callbacks() {
    CacheRegisterRelcacheCallback(relation_changed, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(PROCOID, object_changed, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(ENUMOID, object_changed, static_cast<Datum>(0));
}

Member* find_member(Relation relation) {
    const Oid relid = RelationGetRelid(relation);
    if (last_found != nullptr && last_found->relid == relid && !last_found->stale) return last_found;

    if (members == nullptr) pg::call([] { make_member_table(); });
    bool found;
    auto* slot = static_cast<MemberSlot*>(hash_search(members, &relid, HASH_FIND, &found));
    if (!found) {
        Member* member;
        std::uint64_t seen;
        do {  // what was read while something changed may be of two ages
            seen = invalidations;
            pg::call([] {
                machine_table = catalog_table("machine");
                binding_table = catalog_table("binding");
            });
            member = build_member(relation);
            if (seen != invalidations) MemoryContextDelete(member->context);
        } while (seen != invalidations);
        slot = pg::call([&] { return static_cast<MemberSlot*>(hash_search(members, &relid, HASH_ENTER, nullptr)); });
        slot->member = member;
    }
    last_found = slot->member;
    return last_found;
}

void check_binding(Oid relid, const char* column) {
    Relation relation = nullptr;
    MemoryContext context = nullptr;
    Collected collected;
    pg::call([&] {
        relation = try_relation_open(relid, AccessShareLock);
        if (relation == nullptr)
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relid)));
        context = AllocSetContextCreate(CurrentMemoryContext, "pawl check", ALLOCSET_SMALL_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(context);
        Checked checked = {relid, column, &collected};
        scan_bindings_of(relid, visit_checked, &checked);
        MemoryContextSwitchTo(caller);
        if (collected.n == 0) report_unbound(relation);
    });
    for (StoredBinding* stored = collected.first; stored != nullptr; stored = stored->next) {
        BoundMachine* machine = find_machine(stored->machine, stored->version);
        pg::call([&] {
            MemoryContext caller = MemoryContextSwitchTo(context);
            auto* binding = static_cast<Binding*>(palloc0(sizeof(Binding)));
            binding->machine = machine;
            attach(relation, *stored, *binding);
            resolve_calls(*binding, stored->calls);
            if (cache_listener.checked != nullptr) cache_listener.checked(*binding);
            MemoryContextSwitchTo(caller);
        });
    }
    pg::call([&] {
        MemoryContextDelete(context);
        relation_close(relation, AccessShareLock);
    });
}

bool is_known(Oid relid) noexcept {
    bool found = false;
    if (members != nullptr) hash_search(members, &relid, HASH_FIND, &found);
    return found;
}

Binding* find_binding(Member* member, const char* column) {
    if (column == nullptr) {
        if (member->nbindings == 1) return &member->bindings[0];
        throw pg::Failure(
            ERRCODE_INVALID_PARAMETER_VALUE, "the table carries several lifecycles", "Each is on a column of its own.",
            "Name the column: state_column => '" + std::string(NameStr(member->bindings[0].column)) + "'.");
    }
    for (int i = 0; i < member->nbindings; ++i)
        if (strcmp(NameStr(member->bindings[i].column), column) == 0) return &member->bindings[i];
    throw pg::Failure(ERRCODE_UNDEFINED_OBJECT, "no lifecycle is attached to column \"" + std::string(column) + "\"",
                      {}, "SELECT relation, state_column FROM pawl.binding;");
}

std::uint8_t counted_roles(const Binding& binding, int transition, bool taken_away) {
    if (binding.managed == nullptr) return 0;
    const Managed& managed = *binding.managed;
    std::uint8_t roles = managed.roles[transition];
    if (!taken_away) roles &= static_cast<std::uint8_t>(~role_expires);
    const core::Transition& way = binding.machine->machine->transitions()[transition];
    const bool leaves = way.from != core::no_state && managed.owned[way.from] && !managed.owned[way.to];
    if (leaves && (roles & role_expires) == 0) roles |= role_gives_up;
    return roles;
}

core::StateId decode_state(const Binding& binding, Datum value, bool null) {
    if (null) return core::no_state;
    if (binding.is_enum) {
        const Oid label = DatumGetObjectId(value);
        int low = 0, high = binding.nlabels - 1;
        while (low <= high) {
            const int middle = (low + high) / 2;
            if (binding.label_oids[middle] == label) return binding.label_states[middle];
            if (binding.label_oids[middle] < label)
                low = middle + 1;
            else
                high = middle - 1;
        }
        return core::no_state;
    }
    text* name = DatumGetTextPP(value);
    return binding.machine->machine->find(view(name));
}

text* state_as_text(const Binding& binding, Datum value, bool null) {
    if (null) return nullptr;
    if (!binding.is_enum) return DatumGetTextPP(value);
    return cstring_to_text(DatumGetCString(DirectFunctionCall1(enum_out, value)));
}

void forget_member(Oid relid) noexcept {
    if (members == nullptr) return;
    if (OidIsValid(relid)) {
        bool found;
        auto* slot = static_cast<MemberSlot*>(hash_search(members, &relid, HASH_FIND, &found));
        if (!found) return;
        slot->member->stale = true;
        slot->member->next_stale = stale_members;
        stale_members = slot->member;
        hash_search(members, &relid, HASH_REMOVE, nullptr);
        return;
    }
    HASH_SEQ_STATUS status;
    hash_seq_init(&status, members);
    while (auto* slot = static_cast<MemberSlot*>(hash_seq_search(&status))) forget_member(slot->relid);
}

void free_stale_members() noexcept {
    if (stale_members != nullptr) last_found = nullptr;
    while (stale_members != nullptr) {
        Member* member = stale_members;
        stale_members = member->next_stale;
        for (int i = 0; cache_listener.released != nullptr && i < member->nbindings; ++i)
            cache_listener.released(member->bindings[i]);
        for (int i = 0; i < member->nbindings; ++i)
            for (SPIPlanPtr plan : member->bindings[i].plans)
                if (plan != nullptr) SPI_freeplan(plan);
        MemoryContextDelete(member->context);
    }
}

PAWL_FUNCTION(pawl_check_binding) {
    check_binding(PG_GETARG_OID(0), pg::name_argument(fcinfo, 1));
    return static_cast<Datum>(0);
}

}  // namespace pawl
