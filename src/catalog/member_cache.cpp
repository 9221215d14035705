// May throw and may ereport. See member_cache.hpp.
#include "catalog/member_cache.hpp"

#include "catalog/catalog.hpp"
#include "catalog/catalog_writer.hpp"
#include "catalog/generated.hpp"
#include "pg/bridge.hpp"
#include "session/context.hpp"

namespace pawl {

CacheListener cache_listener = {};

namespace {

HTAB* members = nullptr;  // Oid -> MemberSlot
Member* stale_members = nullptr;
Member* last_found = nullptr;  // a statement asks for the same member for each row
std::uint64_t invalidations = 0;

struct MemberSlot {
    Oid relid;
    Member* member;
};

// The relation and its ancestors, by partitioning or inheritance.
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

// Adds the columns of a partition key, including those in its expressions.
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

// Whether no BEFORE UPDATE trigger fires after pawl's. PostgreSQL fires triggers in the order of their names.
bool validates_last(Relation relation, Oid validate_function) {
    TriggerDesc* triggers = relation->trigdesc;
    if (triggers == nullptr) return false;
    bool seen = false;
    for (int i = 0; i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_ROW, TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_UPDATE)) continue;
        if (trigger.tgfoid == validate_function)
            seen = true;
        else if (seen)
            return false;
    }
    return seen;
}

bool has_after_update(Relation relation, Oid record_function) {
    TriggerDesc* triggers = relation->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (trigger.tgfoid == record_function &&
            TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_ROW, TRIGGER_TYPE_AFTER, TRIGGER_TYPE_UPDATE))
            return true;
    }
    return false;
}

bool carries_our_triggers(Relation relation) {
    const Oid validate = own_trigger_function("validate");
    TriggerDesc* triggers = relation->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i)
        if (triggers->triggers[i].tgfoid == validate) return true;
    return false;
}

[[noreturn]] void report_unbound(Relation relation) {
    const char* table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                                   RelationGetRelationName(relation));
    if (!carries_our_triggers(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("no machine is enforced on table %s", table),
                        errhint("SELECT pawl.enforce(%s, state_column, machine);", quote_literal_cstr(table))));
    if (has_citus())
        ereport(
            ERROR,
            (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table %s has state machine triggers, but no binding", table),
             errdetail("It is no table of pawl.binding, and no shard of one that this node knows."),
             errhint("Write a shard after the transaction that distributed its table has been committed. On the "
                     "coordinator: SELECT pawl.spread_definitions();")));
    ereport(
        ERROR,
        (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table %s has state machine triggers, but no binding", table),
         errdetail("pawl.binding has no row for this table, as after a schema-only restore."),
         errhint(
             "Run here what SELECT pawl.definitions(); returns in the original database, or pawl apply; or enforce a "
             "machine again: SELECT pawl.enforce(%s, state_column, machine);",
             quote_literal_cstr(table))));
}

// The bindings of a table and its ancestors.
void collect_bindings(Oid relid, StoredBindings* collected) {
    ListCell* cell;
    foreach (cell, with_ancestors(relid)) scan_bindings_of(lfirst_oid(cell), read_stored_binding, collected);
}

bool has_inherited_columns(Relation relation) {
    const TupleDesc descriptor = RelationGetDescr(relation);
    for (int i = 0; i < descriptor->natts; ++i)
        if (TupleDescAttr(descriptor, i)->attinhcount > 0) return true;
    return false;
}

// The same of an open table. Ancestors with bindings have columns to inherit, so most tables need no look into
// pg_inherits, which a session opens for nothing else.
void collect_bindings_of(Relation relation, StoredBindings* collected) {
    if (has_inherited_columns(relation))
        collect_bindings(RelationGetRelid(relation), collected);
    else
        scan_bindings_of(RelationGetRelid(relation), read_stored_binding, collected);
}

// The bindings of the distributed table that a shard belongs to, or of a distributed table that this node has not
// written yet: they are taken from the coordinator's definitions.
void collect_distributed(Relation relation, Shard* shard, StoredBindings* collected) {
    Oid logical = RelationGetRelid(relation);
    if (find_shard(relation, shard)) {
        logical = shard->logical;
        collect_bindings(logical, collected);
    } else if (!is_distributed(logical)) {
        return;
    }
    if (collected->n > 0) return;
    Oid type = OIDOID;
    Datum value = ObjectIdGetDatum(logical);
    run_as_catalog_owner("SELECT pawl._adopt($1::pg_catalog.regclass)", 1, &type, &value, nullptr);
    collect_bindings(logical, collected);
}

Member* build_member(Relation relation) {
    MemoryContext context = nullptr;
    Member* member = nullptr;
    StoredBindings collected;
    Shard shard = {};

    pg::call([&] {
        // A child of the caller's context until it is complete, so that an error frees it.
        context = AllocSetContextCreate(CurrentMemoryContext, "pawl member", ALLOCSET_SMALL_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(context);
        member = static_cast<Member*>(palloc0(sizeof(Member)));
        member->relid = RelationGetRelid(relation);
        member->context = context;
        collect_bindings_of(relation, &collected);
        if (collected.n == 0) collect_distributed(relation, &shard, &collected);
        if (collected.n == 0) report_unbound(relation);
        member->nbindings = collected.n;
        member->bindings = static_cast<Binding*>(palloc0(sizeof(Binding) * collected.n));
        read_partition_columns(relation, member);
        member->validated_before = validates_last(relation, own_trigger_function("validate"));
        member->has_after_trigger = has_after_update(relation, own_trigger_function("record"));
        MemoryContextSwitchTo(caller);
    });

    int i = 0;
    for (StoredBinding* stored = collected.first; stored != nullptr; stored = stored->next, ++i) {
        member->bindings[i].machine = find_machine(stored->machine, stored->version);
        pg::call([&] {
            MemoryContext caller = MemoryContextSwitchTo(context);
            build_binding(relation, *stored, OidIsValid(shard.logical) ? &shard : nullptr, member->bindings[i]);
            member->manages_columns |= member->bindings[i].managed != nullptr;
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
    StoredBindings* collected;
};

void visit_checked(const CatalogRow& row, void* argument) {
    auto* checked = static_cast<Checked*>(argument);
    const char* column = row.string("state_column");
    if (column != nullptr && strcmp(column, checked->column) == 0) read_stored_binding(row, checked->collected);
}

// pawl.invalidate() announces changes of pawl.machine and pawl.binding as relcache events of those tables. Their OIDs
// are looked up when a member is built, because a callback must not do that.
Oid machine_table = InvalidOid;
Oid binding_table = InvalidOid;

void relation_changed(Datum, Oid relid) {
    ++invalidations;
    note_relation_change();
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

// A function or an enum label was created, replaced or dropped: guards, effects and labels must be resolved again.
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
        do {  // an invalidation during the build may leave it with old and new data
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
    StoredBindings collected;
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
            build_binding(relation, *stored, nullptr, *binding);
            if (cache_listener.checked != nullptr) cache_listener.checked(*binding);
            MemoryContextSwitchTo(caller);
        });
    }
    pg::call([&] {
        MemoryContextDelete(context);
        relation_close(relation, AccessShareLock);
    });
}

bool is_being_filled(Relation relation) {
    if (relation->rd_createSubid == InvalidSubTransactionId) return false;
    return pg::call([&] {
        if (!has_citus()) return false;
        StoredBindings collected;
        Shard shard = {};
        const bool is_shard = find_shard(relation, &shard);
        if (is_shard && distribution.pending) return true;
        if (executor_level > 0) return false;  // Citus copies rows to other nodes by COPY
        collect_bindings(is_shard ? shard.logical : RelationGetRelid(relation), &collected);
        return collected.n == 0;
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
            ERRCODE_INVALID_PARAMETER_VALUE, "the table has several bindings", "Each binding has its own state column.",
            "Specify the column: state_column => '" + std::string(NameStr(member->bindings[0].column)) + "'.");
    }
    for (int i = 0; i < member->nbindings; ++i)
        if (strcmp(NameStr(member->bindings[i].column), column) == 0) return &member->bindings[i];
    throw pg::Failure(ERRCODE_UNDEFINED_OBJECT, "no machine is enforced on column \"" + std::string(column) + "\"", {},
                      "SELECT relation, state_column FROM pawl.binding;");
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
        MemoryContextDelete(member->context);
    }
}

PAWL_FUNCTION(pawl_check_binding) {
    check_binding(PG_GETARG_OID(0), pg::name_argument(fcinfo, 1));
    return static_cast<Datum>(0);
}

}  // namespace pawl
