// May throw and may ereport. See member_cache.hpp.
#include "catalog/member_cache.hpp"

#include "catalog/catalog.hpp"
#include "catalog/generated.hpp"
#include "pg/bridge.hpp"
#include "catalog/resolve.hpp"

namespace pawl {

CacheListener cache_listener = {};

void report_binding(Oid relation, const char* column, const char* problem) {
    const char* table = get_rel_name(relation);
    report_damage(psprintf("the binding of column \"%s\" of table \"%s\"", column, table == nullptr ? "?" : table), problem);
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
    auto* binding = static_cast<StoredBinding*>(palloc0(sizeof(StoredBinding)));
    binding->relation = row.oid("relation");
    binding->column = row.required("state_column");
    binding->machine = row.required("machine");
    binding->version = row.integer("version");
    binding->keys = row.strings("key_columns", &binding->nkeys);
    binding->history = row.oid("history");
    binding->most_recent = row.required("most_recent");
    binding->hash_chain = row.boolean("hash_chain");
    binding->on_delete = row.required("on_delete");
    binding->events = row.has("events") && row.boolean("events");  // not in the SQL objects of an earlier version
    binding->wake = row.has("wake") && row.boolean("wake");
    if (row.has("trace_columns")) binding->trace = row.strings("trace_columns", &binding->ntrace);
    if (row.has("result_columns")) binding->results = row.strings("result_columns", &binding->nresults);
    if (row.has("locked_after")) binding->locked_after = row.oid("locked_after");
    binding->log_fence = row.has("log_fence") && row.boolean("log_fence");
    if (row.has("calls")) binding->calls.items = row.strings("calls", &binding->calls.n);
    binding->calls.known = binding->calls.items != nullptr;
    binding->managed = read_managed(row);
    binding->next = collected->first;
    collected->first = binding;
    ++collected->n;
}

// The relation itself and everything it inherits from, by partitioning or by inheritance.
List* with_ancestors(Oid relid) {
    List* found = list_make1_oid(relid);
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    for (int i = 0; i < list_length(found); ++i) {
        ScanKeyData key;
        ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(list_nth_oid(found, i)));
        SysScanDesc scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, nullptr, 1, &key);
        HeapTuple tuple;
        while (HeapTupleIsValid(tuple = systable_getnext(scan)))
            found = list_append_unique_oid(found, reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple))->inhparent);
        systable_endscan(scan);
    }
    table_close(inherits, AccessShareLock);
    return found;
}

[[noreturn]] void report_binding(const StoredBinding& binding, const char* problem) {
    pawl::report_binding(binding.relation, binding.column, problem);
}

AttrNumber attribute_of(Relation relation, const char* column) {
    AttrNumber attribute = get_attnum(RelationGetRelid(relation), column);
    if (attribute < 0)
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                        errmsg("column \"%s\" of enforced table \"%s\" is a system column", column, RelationGetRelationName(relation)),
                        errhint("SELECT * FROM pawl.health();")));
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
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
            attributes = bms_add_member(attributes, get_partition_col_attnum(key, i) - FirstLowInvalidHeapAttributeNumber);
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
    foreach (cell, get_partition_ancestors(RelationGetRelid(relation))) add_partition_columns(relation, lfirst_oid(cell), &columns);
    member->partition_keys = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * Max(bms_num_members(columns), 1)));
    int column = -1;
    while ((column = bms_next_member(columns, column)) >= 0)
        member->partition_keys[member->npartition_keys++] = static_cast<AttrNumber>(column);
}

// PostgreSQL fires triggers in the order of their names: ours is the last word when no BEFORE UPDATE trigger sorts after it.
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

void read_labels(Attachment& attachment) {
    CatCList* labels = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(attachment.state_type));
    const int n = labels->n_members;
    attachment.nlabels = n;
    attachment.label_oids = static_cast<Oid*>(palloc(sizeof(Oid) * Max(n, 1)));
    attachment.label_states = static_cast<core::StateId*>(palloc(sizeof(core::StateId) * Max(n, 1)));
    for (int i = 0; i < n; ++i)
        attachment.label_oids[i] = reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[i]->tuple))->oid;
    qsort(attachment.label_oids, n, sizeof(Oid), compare_labels);
    for (int i = 0; i < n; ++i) {
        Form_pg_enum label = reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[i]->tuple));
        for (int j = 0; j < n; ++j)
            if (attachment.label_oids[j] == label->oid)
                attachment.label_states[j] = attachment.machine->machine->find(NameStr(label->enumlabel));
    }
    ReleaseCatCacheList(labels);
}

void read_state_column(Relation relation, const char* column, Attachment& attachment) {
    attachment.state = attribute_of(relation, column);
    attachment.state_type = getBaseType(TupleDescAttr(RelationGetDescr(relation), attachment.state - 1)->atttypid);
    attachment.is_enum = get_typtype(attachment.state_type) == TYPTYPE_ENUM;
    if (!attachment.is_enum && attachment.state_type != TEXTOID && attachment.state_type != VARCHAROID)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("column \"%s\" of enforced table \"%s\" cannot hold a state", column, RelationGetRelationName(relation)),
                        errdetail("Its type is %s; a state column is text, varchar, an enum, or a domain over one of them.",
                                  format_type_be(attachment.state_type))));
    if (attachment.is_enum) read_labels(attachment);
}

void read_keys(Relation relation, const StoredBinding& binding, Attachment& attachment) {
    attachment.nkeys = binding.nkeys;
    attachment.keys = static_cast<KeyColumn*>(palloc0(sizeof(KeyColumn) * Max(binding.nkeys, 1)));
    for (int i = 0; i < binding.nkeys; ++i)
        attachment.keys[i] = describe_key_column(relation, attribute_of(relation, binding.keys[i]), binding.keys[i]);
}

// Those that are used for their places in the root, too.
void check_columns(Relation root, const StoredBinding& binding) {
    attribute_of(root, binding.column);
    for (int i = 0; i < binding.nkeys; ++i) attribute_of(root, binding.keys[i]);
    for (int i = 0; binding.managed != nullptr && i < binding.managed->claim_columns.n; ++i) attribute_of(root, binding.managed->claim_columns.items[i]);
}

AttrNumber trace_column(Relation relation, const StoredBinding& binding, int n) {
    const AttrNumber attribute = attribute_of(relation, binding.trace[n]);
    const Oid type = getBaseType(TupleDescAttr(RelationGetDescr(relation), attribute - 1)->atttypid);
    if (type != TEXTOID && type != VARCHAROID)
        report_binding(binding, psprintf("Column \"%s\" cannot hold a trace: its type is %s.", binding.trace[n], format_type_be(type)));
    return attribute;
}

// What can be said of the row without looking at the table.
void check_row(Relation relation, const StoredBinding& binding) {
    const char kind = get_rel_relkind(binding.relation);
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) report_binding(binding, "It is of a relation that is no table.");
    if (relation->rd_rel->relkind != RELKIND_RELATION && relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        report_binding(binding, psprintf("\"%s\" is no table.", RelationGetRelationName(relation)));
    if (strcmp(binding.most_recent, "stored") != 0 && strcmp(binding.most_recent, "derived") != 0)
        report_binding(binding, psprintf("most_recent is \"%s\".", binding.most_recent));
    if (strcmp(binding.on_delete, "allow") != 0 && strcmp(binding.on_delete, "terminal") != 0 && strcmp(binding.on_delete, "deny") != 0)
        report_binding(binding, psprintf("on_delete is \"%s\".", binding.on_delete));
    if (binding.nkeys >= INDEX_MAX_KEYS) report_binding(binding, psprintf("It has %d key columns.", binding.nkeys));
    if (binding.nkeys == 0 && (OidIsValid(binding.history) || binding.events || binding.managed != nullptr))
        report_binding(binding, "It has no key columns, which a log, events and managed columns need.");
    if (binding.managed != nullptr && binding.managed->claim_columns.n + binding.nkeys >= INDEX_MAX_KEYS)
        report_binding(binding, psprintf("claim_columns has %d columns.", binding.managed->claim_columns.n));
    if (const char* problem = binding.managed == nullptr ? nullptr : managed_problem(*binding.managed)) report_binding(binding, problem);
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

void read_claimable(Attachment& attachment) {
    const core::Machine& machine = *attachment.machine->machine;
    attachment.claimable = static_cast<bool*>(palloc0(sizeof(bool) * machine.states().size()));
    for (std::size_t i = 0; i < machine.arrows().size(); ++i)
        if (attachment.managed->roles[i] & arrow_claims) attachment.claimable[machine.arrows()[i].from] = true;
}

void attach(Relation relation, const StoredBinding& binding, Attachment& attachment) {
    attachment.root = binding.relation;
    namestrcpy(&attachment.column, binding.column);
    check_row(relation, binding);
    read_state_column(relation, binding.column, attachment);
    read_keys(relation, binding, attachment);
    attachment.log.table = binding.history;
    attachment.log.keys = attachment.keys;
    attachment.log.stored = strcmp(binding.most_recent, "stored") == 0;
    attachment.log.hash_chain = binding.hash_chain;
    attachment.log_is_replicated = OidIsValid(binding.history) && is_subscribed(binding.history);
    attachment.on_delete = strcmp(binding.on_delete, "deny") == 0       ? OnDelete::deny
                           : strcmp(binding.on_delete, "terminal") == 0 ? OnDelete::terminal
                                                                        : OnDelete::allow;
    attachment.events = binding.events;
    if (binding.ntrace > 0) attachment.traceparent = trace_column(relation, binding, 0);
    if (binding.ntrace > 1) attachment.tracestate = trace_column(relation, binding, 1);
    attachment.results = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * Max(binding.nresults, 1)));
    for (int i = 0; i < binding.nresults; ++i) {
        const AttrNumber column = attribute_of(relation, binding.results[i]);
        if (TupleDescAttr(RelationGetDescr(relation), column - 1)->atttypid == JSONBOID) attachment.results[attachment.nresults++] = column;
    }
    attachment.locked_after = binding.locked_after;
    attachment.log_fence = binding.log_fence;
    attachment.managed = binding.managed;
    if (attachment.managed != nullptr) {
        resolve_managed(*attachment.managed, *attachment.machine->machine, relation);
        if (const char* problem = column_problem(*attachment.managed, attachment.state)) report_binding(binding, problem);
    }
    attachment.wake = binding.wake && attachment.managed != nullptr;
    if (attachment.wake) read_claimable(attachment);
    Relation root = binding.relation == RelationGetRelid(relation) ? relation : table_open(binding.relation, AccessShareLock);
    check_columns(root, binding);
    attachment.root_descriptor = CreateTupleDescCopy(RelationGetDescr(root));
    attachment.root_descriptor->tdtypeid = root->rd_rel->reltype;
    attachment.root_descriptor->tdtypmod = -1;
    if (root != relation) {
        attachment.to_root = convert_tuples_by_name(CreateTupleDescCopy(RelationGetDescr(relation)), attachment.root_descriptor);
        table_close(root, AccessShareLock);
    }
}

void resolve_call(const Attachment& attachment, const Signatures& signatures, const char* qualified_name, bool guard, Call& call) {
    const Oid row = attachment.root_descriptor->tdtypeid;
    const Oid function = find_row_function(qualified_name, row, guard, signatures);
    if (!OidIsValid(function))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("function %s(%s, %s) does not exist", qualified_name, format_type_be(row), format_type_be(row)),
                        errdetail("Machine \"%s\" names it as %s.", attachment.machine->name,
                                  guard ? "a guard, which returns boolean" : "an effect"),
                        signatures.known ? errhint("A function of other arguments does not take its place; pawl.health() tells which one is missing.") : 0));
    call.name = pstrdup(qualified_name);
    fmgr_info_cxt(function, &call.function, CurrentMemoryContext);
    // A polymorphic function reads the types of its arguments from the expression that calls it.
    List* nulls = list_make2(makeNullConst(row, -1, InvalidOid), makeNullConst(row, -1, InvalidOid));
    FuncExpr* expression = makeFuncExpr(function, get_func_rettype(function), nulls, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
    fmgr_info_set_expr(reinterpret_cast<Node*>(expression), &call.function);
}

void resolve_calls(Attachment& attachment, const Signatures& signatures) {
    const auto& arrows = attachment.machine->machine->arrows();
    attachment.calls = static_cast<ArrowCalls*>(palloc0(sizeof(ArrowCalls) * Max(arrows.size(), 1)));
    for (std::size_t i = 0; i < arrows.size(); ++i) {
        ArrowCalls& calls = attachment.calls[i];
        calls.nguards = static_cast<int>(arrows[i].guards.size());
        calls.neffects = static_cast<int>(arrows[i].effects.size());
        calls.guards = static_cast<Call*>(palloc0(sizeof(Call) * Max(calls.nguards, 1)));
        calls.effects = static_cast<Call*>(palloc0(sizeof(Call) * Max(calls.neffects, 1)));
        for (int j = 0; j < calls.nguards; ++j) resolve_call(attachment, signatures, arrows[i].guards[j].c_str(), true, calls.guards[j]);
        for (int j = 0; j < calls.neffects; ++j) resolve_call(attachment, signatures, arrows[i].effects[j].c_str(), false, calls.effects[j]);
        attachment.has_effects |= calls.neffects > 0;
        attachment.has_guards |= calls.nguards > 0;
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
    const char* table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation));
    if (!carries_our_triggers(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("no lifecycle is attached to table %s", table),
                        errhint("SELECT pawl.enforce(%s, state_column, machine);", quote_literal_cstr(table))));
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table %s carries triggers of pawl, but no lifecycle", table),
                    errdetail("pawl.binding has no row for it; a schema-only restore leaves it so."),
                    errhint("Restore the data of pawl.machine and pawl.binding, or attach it again: SELECT pawl.enforce(%s, state_column, machine);",
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
        member->nattachments = collected.n;
        member->attachments = static_cast<Attachment*>(palloc0(sizeof(Attachment) * collected.n));
        read_partition_columns(relation, member);
        member->judged_before = judge_fires_last(relation, own_trigger_function("judge"));
        member->settles_updates = has_after_update(relation, own_trigger_function("settle"));
        MemoryContextSwitchTo(caller);
    });

    int i = 0;
    for (StoredBinding* binding = collected.first; binding != nullptr; binding = binding->next, ++i) {
        member->attachments[i].machine = find_machine(binding->machine, binding->version);
        pg::call([&] {
            MemoryContext caller = MemoryContextSwitchTo(context);
            attach(relation, *binding, member->attachments[i]);
            member->keeps_columns |= member->attachments[i].managed != nullptr;
            resolve_calls(member->attachments[i], binding->calls);
            member->has_effects |= member->attachments[i].has_effects;
            member->guards_generated |= member->attachments[i].has_guards && has_generated_columns(relation);
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

// pawl.invalidate() announces changes of pawl.machine and pawl.binding as relcache events of those tables; their oids are
// looked up when a member is built, because a callback may not.
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
        if (relation == nullptr) ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relid)));
        context = AllocSetContextCreate(CurrentMemoryContext, "pawl check", ALLOCSET_SMALL_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(context);
        Checked checked = {relid, column, &collected};
        scan_bindings_of(relid, visit_checked, &checked);
        MemoryContextSwitchTo(caller);
        if (collected.n == 0) report_unbound(relation);
    });
    for (StoredBinding* binding = collected.first; binding != nullptr; binding = binding->next) {
        BoundMachine* machine = find_machine(binding->machine, binding->version);
        pg::call([&] {
            MemoryContext caller = MemoryContextSwitchTo(context);
            auto* attachment = static_cast<Attachment*>(palloc0(sizeof(Attachment)));
            attachment->machine = machine;
            attach(relation, *binding, *attachment);
            resolve_calls(*attachment, binding->calls);
            if (cache_listener.checked != nullptr) cache_listener.checked(*attachment);
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

Attachment* find_attachment(Member* member, const char* column) {
    if (column == nullptr) {
        if (member->nattachments == 1) return &member->attachments[0];
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "the table carries several lifecycles",
                          "Each is on a column of its own.", "Name the column: state_column => '" +
                          std::string(NameStr(member->attachments[0].column)) + "'.");
    }
    for (int i = 0; i < member->nattachments; ++i)
        if (strcmp(NameStr(member->attachments[i].column), column) == 0) return &member->attachments[i];
    throw pg::Failure(ERRCODE_UNDEFINED_OBJECT, "no lifecycle is attached to column \"" + std::string(column) + "\"", {},
                      "SELECT relation, state_column FROM pawl.binding;");
}

std::uint8_t counted_roles(const Attachment& attachment, int arrow, bool taken_away) {
    if (attachment.managed == nullptr) return 0;
    const Managed& managed = *attachment.managed;
    std::uint8_t roles = managed.roles[arrow];
    if (!taken_away) roles &= static_cast<std::uint8_t>(~arrow_lapses);
    const core::Arrow& way = attachment.machine->machine->arrows()[arrow];
    const bool leaves = way.from != core::no_state && managed.owned[way.from] && !managed.owned[way.to];
    if (leaves && (roles & arrow_lapses) == 0) roles |= arrow_gives_up;
    return roles;
}

core::StateId decode_state(const Attachment& attachment, Datum value, bool null) {
    if (null) return core::no_state;
    if (attachment.is_enum) {
        const Oid label = DatumGetObjectId(value);
        int low = 0, high = attachment.nlabels - 1;
        while (low <= high) {
            const int middle = (low + high) / 2;
            if (attachment.label_oids[middle] == label) return attachment.label_states[middle];
            if (attachment.label_oids[middle] < label)
                low = middle + 1;
            else
                high = middle - 1;
        }
        return core::no_state;
    }
    text* name = DatumGetTextPP(value);
    return attachment.machine->machine->find(view(name));
}

text* state_as_text(const Attachment& attachment, Datum value, bool null) {
    if (null) return nullptr;
    if (!attachment.is_enum) return DatumGetTextPP(value);
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
        for (int i = 0; cache_listener.released != nullptr && i < member->nattachments; ++i) cache_listener.released(member->attachments[i]);
        for (int i = 0; i < member->nattachments; ++i)
            for (SPIPlanPtr plan : member->attachments[i].plans)
                if (plan != nullptr) SPI_freeplan(plan);
        MemoryContextDelete(member->context);
    }
}

PAWL_FUNCTION(pawl_check_binding) {
    check_binding(PG_GETARG_OID(0), pg::name_argument(fcinfo, 1));
    return static_cast<Datum>(0);
}

}  // namespace pawl
