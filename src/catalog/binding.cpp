// May ereport; owns nothing. See binding.hpp.
#include "catalog/binding.hpp"

#include "catalog/catalog.hpp"

namespace pawl {

void report_binding(Oid relation, const char* column, const char* problem) {
    const char* table = get_rel_name(relation);
    report_damage(psprintf("the binding of column \"%s\" of table \"%s\"", column, table == nullptr ? "?" : table),
                  problem);
}

void read_stored_binding(const CatalogRow& row, void* argument) {
    auto* collected = static_cast<StoredBindings*>(argument);
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
    stored->events = row.has("events") && row.boolean("events");  // the SQL objects of an earlier version lack it
    stored->errors = row.has("errors") ? row.required("errors") : pstrdup("pawl");  // likewise
    stored->wake = row.has("wake") && row.boolean("wake");
    if (row.has("trace_columns")) stored->trace = row.strings("trace_columns", &stored->ntrace);
    if (row.has("result_columns")) stored->results = row.strings("result_columns", &stored->nresults);
    if (row.has("locked_after")) stored->locked_after = row.oid("locked_after");
    stored->logs_token = row.has("log_token") && row.boolean("log_token");
    stored->placing = row.has("may_place") && row.boolean("may_place");
    stored->validated = !row.has("validated") || row.boolean("validated");
    if (row.has("calls")) stored->calls.items = row.strings("calls", &stored->calls.n);
    stored->calls.known = stored->calls.items != nullptr;
    stored->managed = read_managed(row);
    StoredBinding** link = &collected->first;
    while (*link != nullptr && (*link)->relation == stored->relation && strcmp((*link)->column, stored->column) > 0)
        link = &(*link)->next;
    stored->next = *link;
    *link = stored;
    ++collected->n;
}

AttrNumber attribute_of(Relation relation, const char* column) {
    // In the open table: the catalog caches would read pg_attribute once for each column.
    const int attribute = SPI_fnumber(RelationGetDescr(relation), column);
    if (attribute == SPI_ERROR_NOATTRIBUTE)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_COLUMN),
                 errmsg("column \"%s\" of enforced table \"%s\" is missing", column, RelationGetRelationName(relation)),
                 errhint("SELECT * FROM pawl.health();")));
    if (attribute < 0)
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                        errmsg("column \"%s\" of enforced table \"%s\" is a system column", column,
                               RelationGetRelationName(relation)),
                        errhint("SELECT * FROM pawl.health();")));
    return static_cast<AttrNumber>(attribute);
}

namespace {

[[noreturn]] void report_binding(const StoredBinding& stored, const char* problem) {
    pawl::report_binding(stored.relation, stored.column, problem);
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

// Checks the columns that are also used by their attribute numbers in the root.
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

// Checks a row of pawl.binding by itself.
void check_row(Relation relation, const StoredBinding& stored) {
    const char kind = get_rel_relkind(stored.relation);
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
        report_binding(stored, "The bound relation is not a table.");
    if (relation->rd_rel->relkind != RELKIND_RELATION && relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        report_binding(stored, psprintf("\"%s\" is not a table.", RelationGetRelationName(relation)));
    if (strcmp(stored.most_recent, "stored") != 0 && strcmp(stored.most_recent, "derived") != 0)
        report_binding(stored, psprintf("most_recent is \"%s\".", stored.most_recent));
    if (strcmp(stored.on_delete, "allow") != 0 && strcmp(stored.on_delete, "terminal") != 0 &&
        strcmp(stored.on_delete, "deny") != 0)
        report_binding(stored, psprintf("on_delete is \"%s\".", stored.on_delete));
    if (strcmp(stored.errors, "pawl") != 0 && strcmp(stored.errors, "check_violation") != 0)
        report_binding(stored, psprintf("errors is \"%s\".", stored.errors));
    if (stored.nkeys >= INDEX_MAX_KEYS) report_binding(stored, psprintf("It has %d key columns.", stored.nkeys));
    if (stored.nkeys == 0 && (OidIsValid(stored.history) || stored.events || stored.managed != nullptr))
        report_binding(stored, "It has no key columns, which a log, events and managed columns need.");
    if (stored.managed != nullptr && stored.managed->claim_columns.n + stored.nkeys >= INDEX_MAX_KEYS)
        report_binding(stored, psprintf("claim_columns has %d columns.", stored.managed->claim_columns.n));
    if (const char* problem = stored.managed == nullptr ? nullptr : managed_problem(*stored.managed))
        report_binding(stored, problem);
}

// Whether a subscription of this database replicates into the table.
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

// Copies the settings that do not name columns of the table.
void copy_settings(const StoredBinding& stored, Binding& binding) {
    binding.root = stored.relation;
    binding.table = stored.relation;
    namestrcpy(&binding.column, stored.column);
    binding.log.table = stored.history;
    binding.log.stored = strcmp(stored.most_recent, "stored") == 0;
    binding.log.hash_chain = stored.hash_chain;
    binding.log_is_replicated = OidIsValid(stored.history) && is_subscribed(stored.history);
    binding.on_delete = strcmp(stored.on_delete, "deny") == 0       ? OnDelete::deny
                        : strcmp(stored.on_delete, "terminal") == 0 ? OnDelete::terminal
                                                                    : OnDelete::allow;
    binding.validated = stored.validated;
    binding.checks = strcmp(stored.errors, "check_violation") == 0;
    binding.events = stored.events;
    binding.locked_after = stored.locked_after;
    binding.logs_token = stored.logs_token;
    binding.placing = stored.placing;
}

// A row is recorded on the node that has it: in the shard of the log with the same range of the distribution column.
void use_shard(const Shard& shard, const StoredBinding& stored, Binding& binding) {
    binding.table = shard.root;
    if (!OidIsValid(stored.history)) return;
    binding.log.table = shard_beside(shard, stored.history);
    if (!OidIsValid(binding.log.table))
        report_binding(stored, psprintf("This node has no shard of its log \"%s\" beside shard " INT64_FORMAT ".",
                                        get_rel_name(stored.history), shard.id));
}

void read_other_columns(Relation relation, const StoredBinding& stored, Binding& binding) {
    if (stored.ntrace > 0) binding.traceparent = trace_column(relation, stored, 0);
    if (stored.ntrace > 1) binding.tracestate = trace_column(relation, stored, 1);
    binding.results = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * Max(stored.nresults, 1)));
    for (int i = 0; i < stored.nresults; ++i) {
        const AttrNumber column = attribute_of(relation, stored.results[i]);
        if (TupleDescAttr(RelationGetDescr(relation), column - 1)->atttypid == JSONBOID)
            binding.results[binding.nresults++] = column;
    }
    binding.managed = stored.managed;
    if (binding.managed != nullptr) {
        resolve_managed(*binding.managed, *binding.machine->machine, relation);
        if (const char* problem = column_problem(*binding.managed, binding.state)) report_binding(stored, problem);
    }
    binding.wake = stored.wake && binding.managed != nullptr;
    if (binding.wake) read_claimable(binding);
}

// Prepares the conversion of rows to the root's row type, with which guards and effects are called.
void read_root(Relation relation, const StoredBinding& stored, const Shard* shard, Binding& binding) {
    Relation root =
        stored.relation == RelationGetRelid(relation) ? relation : table_open(stored.relation, AccessShareLock);
    check_columns(root, stored);
    binding.root_descriptor = CreateTupleDescCopy(RelationGetDescr(root));
    binding.root_descriptor->tdtypeid = root->rd_rel->reltype;
    binding.root_descriptor->tdtypmod = -1;
    binding.row_descriptor = binding.root_descriptor;
    if (shard != nullptr) {
        binding.row_descriptor = CreateTupleDescCopy(RelationGetDescr(relation));
        binding.row_descriptor->tdtypeid = relation->rd_rel->reltype;
        binding.row_descriptor->tdtypmod = -1;
    }
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
                 signatures.known ? errhint("Functions with other argument types are not used. SELECT * FROM "
                                            "pawl.health();")
                                  : 0));
    call.name = pstrdup(qualified_name);
    fmgr_info_cxt(function, &call.function, CurrentMemoryContext);
    // A polymorphic function finds the types of its arguments in the calling expression.
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

}  // namespace

void build_binding(Relation relation, const StoredBinding& stored, const Shard* shard, Binding& binding) {
    check_row(relation, stored);
    copy_settings(stored, binding);
    if (shard != nullptr)
        use_shard(*shard, stored, binding);
    else
        binding.distributed = is_distributed(stored.relation);
    read_state_column(relation, stored.column, binding);
    read_keys(relation, stored, binding);
    binding.log.keys = binding.keys;
    read_other_columns(relation, stored, binding);
    read_root(relation, stored, shard, binding);
    resolve_calls(binding, stored.calls);
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

}  // namespace pawl
