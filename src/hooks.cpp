// May ereport; owns nothing. Hooks of the kernel into the server: executor levels, the end of statements and of
// transactions.
#include "catalog/member_cache.hpp"
#include "catalog/shard.hpp"
#include "ddl/distribution.hpp"
#include "events/outbox.hpp"
#include "events/wake.hpp"
#include "fire/node_context.hpp"
#include "fire/planner.hpp"
#include "fire/plans.hpp"
#include "guard/handover.hpp"
#include "guard/intent.hpp"
#include "guard/partition_moves.hpp"
#include "guard/row_states.hpp"
#include "log/entry_buffer.hpp"
#include "log/layout.hpp"
#include "log/newest_entry.hpp"
#include "log/predecessor.hpp"
#include "observe/audit.hpp"
#include "observe/transaction_counts.hpp"
#include "pg/bridge.hpp"
#include "session/context.hpp"
#include "session/observer.hpp"
#include "session/statements.hpp"
#include "work/scan_position.hpp"

extern "C" {
#include "access/twophase.h"

PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);
}

namespace pawl {

void forget_deferral() noexcept;  // triggers.cpp

namespace {

ExecutorStart_hook_type next_executor_start = nullptr;
ExecutorRun_hook_type next_executor_run = nullptr;
ExecutorFinish_hook_type next_executor_finish = nullptr;
ProcessUtility_hook_type next_utility = nullptr;

// Completes what a statement without an executor end of its own left: COPY, or the statement that loaded this library.
void executor_start(QueryDesc* query, int flags) {
    if (executor_level == 0) {
        deferring_level = no_level;
        if (!entry_buffer_is_empty()) write_pending_entries(false);
    }
    if (next_executor_start != nullptr)
        next_executor_start(query, flags);
    else
        standard_ExecutorStart(query, flags);
}

#if PG_VERSION_NUM >= 180000
void executor_run(QueryDesc* query, ScanDirection direction, uint64 count) {
#define PAWL_RUN_ARGUMENTS query, direction, count
#else
void executor_run(QueryDesc* query, ScanDirection direction, uint64 count, bool once) {
#define PAWL_RUN_ARGUMENTS query, direction, count, once
#endif
    RunningStatement statement = {running_statement, command_of(query), InvalidCommandId};
    running_statement = &statement;
    ++executor_level;
    PG_TRY();
    {
        if (next_executor_run != nullptr)
            next_executor_run(PAWL_RUN_ARGUMENTS);
        else
            standard_ExecutorRun(PAWL_RUN_ARGUMENTS);
    }
    PG_FINALLY();
    {
        --executor_level;
        running_statement = statement.outer;
    }
    PG_END_TRY();
}

// Only a query that writes can have filled the entry buffer; a SELECT within another statement leaves it to that
// statement.
bool ends_a_statement(const QueryDesc* query) {
    return executor_level == 0 || query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE;
}

void executor_finish(QueryDesc* query) {
    RunningStatement statement = {running_statement, command_of(query), InvalidCommandId};
    running_statement = &statement;
    ++executor_level;
    PG_TRY();
    {
        if (next_executor_finish != nullptr)
            next_executor_finish(query);
        else
            standard_ExecutorFinish(query);
    }
    PG_FINALLY();
    {
        --executor_level;
        running_statement = statement.outer;
    }
    PG_END_TRY();
    // The queries of foreign keys leave their AFTER triggers to the statement around them.
    const bool triggers_fired = (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) == 0;
    if (triggers_fired)
        delete_vanished_rows();
    else
        inherit_triggers(statement.command);
    if (deferring_level != no_level && deferring_level > executor_level)
        deferring_level = triggers_fired ? no_level : executor_level;
    if (!entry_buffer_is_empty() && ends_a_statement(query)) write_pending_entries(false);
    if (running_statement == nullptr) forget_written();
    if (distribution.level > executor_level && distribution.level != no_level) follow_distribution();
}

// What a statement does with a prepared transaction. It is read before the statement runs: a CALL that ends its
// transaction frees its own statement.
struct OnPrepared {
    bool any;
    TransactionStmtKind kind;
    char gid[GIDSIZE];
};

OnPrepared read_prepared(const PlannedStmt* statement) {
    OnPrepared prepared = {};
    if (!IsA(statement->utilityStmt, TransactionStmt)) return prepared;
    const auto* transaction = reinterpret_cast<const TransactionStmt*>(statement->utilityStmt);
    if (transaction->gid == nullptr) return prepared;
    prepared.any = true;
    prepared.kind = transaction->kind;
    strlcpy(prepared.gid, transaction->gid, GIDSIZE);
    return prepared;
}

// The counts of a prepared transaction are kept under its name.
void count_prepared(const OnPrepared& prepared) {
    if (!counters_are_kept()) return;
    if (prepared.kind == TRANS_STMT_PREPARE) note_gid(prepared.gid);
    if (prepared.kind == TRANS_STMT_COMMIT_PREPARED) end_prepared(prepared.gid, true);
    if (prepared.kind == TRANS_STMT_ROLLBACK_PREPARED) end_prepared(prepared.gid, false);
}

void process_utility(PlannedStmt* statement, const char* query, bool read_only, ProcessUtilityContext context,
                     ParamListInfo params, QueryEnvironment* environment, DestReceiver* destination,
                     QueryCompletion* completion) {
    const OnPrepared prepared = read_prepared(statement);
    if (next_utility != nullptr)
        next_utility(statement, query, read_only, context, params, environment, destination, completion);
    else
        standard_ProcessUtility(statement, query, read_only, context, params, environment, destination, completion);
    if (executor_level == 0) deferring_level = no_level;
    if (prepared.any) {
        count_prepared(prepared);
        if (prepared.kind == TRANS_STMT_COMMIT_PREPARED) note_prepared_work();
    }
    if (!entry_buffer_is_empty() && IsTransactionState()) write_pending_entries(false);
}

void forget_everything() {
    clear_entry_buffer();
    forget_outbox();
    forget_counts();
    forget_wakes();
    forget_handovers();
    forget_state_texts();
    forget_events();
    forget_partition_moves();
    forget_deferral();
    forget_distribution();
    clear_intents();
    forget_predecessors();
    executor_level = 0;
    running_statement = nullptr;
    deferring_level = no_level;
    free_stale_members();
    free_stale_machines();
}

void transaction_event(XactEvent event, void*) {
    switch (event) {
        case XACT_EVENT_PRE_COMMIT:
        case XACT_EVENT_PRE_PREPARE:
            delete_vanished_rows();
            write_pending_entries(true);
            check_distributed();
            if (seal_outbox()) note_wake(events_channel);
            if (event == XACT_EVENT_PRE_COMMIT) wake_waiters();
            break;
        case XACT_EVENT_COMMIT:
        case XACT_EVENT_ABORT:
        case XACT_EVENT_PREPARE:
            if (event == XACT_EVENT_COMMIT) commit_counts();
            if (event == XACT_EVENT_PREPARE) prepare_counts();
            if (event == XACT_EVENT_ABORT) {
                distrust_scan_positions();
                forget_newest_entries();
            }
            forget_everything();
            break;
        default:
            break;
    }
}

void subtransaction_event(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void*) {
    if (event == SUBXACT_EVENT_COMMIT_SUB) {
        reassign_partition_moves(mine, parent);
        reassign_changes(mine, parent);
        reassign_requests(mine, parent);
        reassign_events(mine, parent);
        reassign_wakes(mine, parent);
        reassign_counts(mine, parent);
    } else if (event == SUBXACT_EVENT_ABORT_SUB) {
        drop_changes_of(mine);
        drop_requests_of(mine);
        drop_events_of(mine);
        drop_wakes_of(mine);
        drop_counts_of(mine);
        drop_partition_moves_of(mine);
        distrust_scan_positions();
        if (!rows_are_deferred()) deferring_level = no_level;
    }
}

}  // namespace

}  // namespace pawl

void _PG_init(void) {
    using namespace pawl;
    cache_listener = {forget_newest_entries, free_plans, check_log};
    if (process_shared_preload_libraries_in_progress) {
        request_counters();
        observer = {[](int sqlstate, const char* machine) noexcept { count_rejection(sqlstate, machine); }, count_move,
                    count_time};
    }
    context_set = send_setting;
    define_settings();  // after the counters' setting: it reserves the prefix
    pg::on_failure = [](int sqlstate) noexcept { rejected(sqlstate, nullptr); };
    register_cache_callbacks();
    register_planner_hooks();
    register_audit_callbacks();
    RegisterXactCallback(transaction_event, nullptr);
    RegisterSubXactCallback(subtransaction_event, nullptr);
    next_executor_start = ExecutorStart_hook;
    next_executor_run = ExecutorRun_hook;
    next_executor_finish = ExecutorFinish_hook;
    next_utility = ProcessUtility_hook;
    ExecutorStart_hook = executor_start;
    ExecutorRun_hook = executor_run;
    ExecutorFinish_hook = executor_finish;
    ProcessUtility_hook = process_utility;
}
