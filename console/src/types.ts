// The shapes that the API answers with, as far as the console reads them.
import type { Placed } from "./databases";
import type { Minute } from "./throughput";

export interface Duty {
    name: string;
    runs: number;
    rows: number;
    errors: number;
    seconds: number;
    last_error?: string | null;
}
export interface Session {
    person: string;
    role: string;
    scopes: string[];
    expires_at: string | null;
    database: string;
    version: string;
    packs: string[];
    /** Functions that the role can execute; each stands for a group of operations. */
    operations: string[];
    daemon?: { healthy: boolean; reason?: string | null; uptime_s?: number; duties?: Duty[] };
}

export interface Queue {
    relation: string;
    queue: string | null;
    depth: number;
    capped?: boolean;
    owned: number;
    oldest_at: string | null;
    paused?: boolean;
}
export interface Owner {
    relation: string;
    processor: string;
    owned: number;
    capped?: boolean;
    expired: number;
    next_lease_end: string | null;
}
export interface Timer {
    relation: string;
    due: number;
    oldest_at?: string | null;
}
export interface Moved {
    relation: string;
    machine: string;
    total: number;
}
export interface Rejection {
    sqlstate: string;
    count: number;
    last_at?: string | null;
}
/** Of all clients; null where the server does not count. */
export interface Rejected {
    since: string;
    items: { machine: string | null; sqlstate: string | null; count: number }[];
}
export interface Failure {
    kind: "task" | "bulk" | "saga";
    id: string;
    name: string;
    what: unknown;
    at: string;
}
export interface Overview {
    at: string;
    queues: Queue[];
    owners: Owner[];
    timers: Timer[];
    moves: Moved[];
    throughput?: Minute[] | null;
    rejections?: Rejection[] | null;
    rejected: Rejected | null;
    dead_letters: number | null;
    tasks_open: Record<string, number> | null;
    bulks_open: Bulk[] | null;
    sagas_open: Record<string, number> | null;
    recent_failures: Failure[] | null;
}

export interface Binding {
    relation: string;
    state_column: string;
    machine?: string;
    version?: number;
    history: string | boolean | null;
    paused?: boolean;
}
export interface MachineLine {
    machine: string;
    version: number;
    states: number;
    transitions: number;
    bindings: Binding[];
}
export interface MachineState {
    state: string;
    initial: boolean;
    terminal: boolean;
    tags: string[];
}
export interface MachineTransition {
    from: string;
    to: string;
    event: string | null;
    guards: string[] | null;
    after: string | null;
}
export interface Machine {
    machine: string;
    version: number;
    states: MachineState[];
    transitions: MachineTransition[];
    bindings: Binding[];
}
export interface StateCount {
    state: string;
    count: number;
}
export interface Counts {
    relation: string;
    state_column: string;
    counts: StateCount[];
    estimated?: boolean;
}
export interface Slow {
    relation: string;
    state: string;
    samples: number;
    mean_s: number;
    p95_s: number;
    max_s: number;
}

export interface Move {
    sort_key: number;
    from_state: string | null;
    to_state: string | null;
    event: string | null;
    processor: string | null;
    actor: string | null;
    correlation_id: string | null;
    metadata: unknown;
    created_at: string;
}
export interface Available {
    event: string;
    to_state: string;
    allowed: boolean;
    blocked_by: string[] | null;
}
export interface RowHistory {
    relation: string;
    key: unknown;
    state: string | null;
    row: unknown;
    items: Move[];
    may_fire: boolean;
    available: Available[];
}

export interface Task extends Placed {
    task_uuid: string;
    name: string;
    version: string;
    namespace: string;
    state: string;
    priority: number;
    identity_key: string;
    correlation_id: string;
    created_at: string;
    entered_at: string;
    completed_at: string | null;
    deadline_at: string | null;
    error: unknown;
    steps: {
        total: number;
        blocked: number;
        ready: number;
        in_flight: number;
        waiting: number;
        failed: number;
        satisfied: number;
        cancelled: number;
    };
}
export interface Step {
    step_uuid: string;
    name: string;
    state: string;
    level: number;
    handler: string;
    optional: boolean;
    attempts: number;
    max_attempts: number;
    worker: string | null;
    last_attempted_at: string | null;
    next_retry_at: string | null;
    lease_until: string | null;
    result: unknown;
    error: unknown;
    retryable: boolean;
    permanent: boolean;
}
export interface Execution {
    execution_status: string;
    recommended_action: string;
    health_status: string;
    completion_percentage: number;
    next_retry_at: string | null;
}
export interface TaskDetail extends Task {
    context: unknown;
    workflow_steps: Step[];
    edges: [string, string][];
}
export interface Timing {
    step_uuid: string;
    began_at: string;
    ended_at: string | null;
}
export interface WholeStep extends Step {
    transitions: Move[];
}
export interface Audit {
    success: boolean;
    recorded_at: string;
    worker: string | null;
    execution_time_ms: number | null;
}
export interface Template {
    namespace: string;
    name: string;
    version: string;
    description: string | null;
    steps: number;
}
export interface DeadLetter extends Placed {
    entry_uuid: string;
    task_uuid: string;
    template: string | null;
    error: unknown;
    original_state: string;
    reason: string;
    dlq_timestamp: string;
    resolution_status: string;
    resolution_notes: string | null;
    resolved_by: string | null;
    resolution_timestamp: string | null;
}

export interface BulkStep {
    step_index: number;
    step_name: string;
    kind: string;
}
export interface Bulk extends Placed {
    operation: string;
    definition: string;
    version: number;
    status: string;
    paused_at: string | null;
    total_rows: number;
    processed_rows: number;
    successful_rows: number;
    failed_rows: number;
    progress: number;
    validated_rows: number;
    rate: number | null;
    estimated_end: string | null;
    retry_count: number;
    error_message: string | null;
    created_by: string | null;
    file_name: string | null;
    created_at: string;
    started_at: string | null;
    completed_at: string | null;
}
export interface BulkDetail extends Bulk {
    metadata: unknown;
    steps: BulkStep[] | null;
}
export interface ErrorGroup {
    step_index: number;
    step_name: string;
    error_type: string;
    code: string | null;
    rows: number;
    first_row: number;
    example: string | null;
}
export interface BulkRow {
    row_number: number;
    row_id: string | null;
    step_index: number;
    step_name: string;
    state: string;
    error_type: string | null;
    error_message: string | null;
}
export interface RowRecord {
    step_index: number;
    step_name: string;
    state: string;
    error_type: string | null;
    error_message: string | null;
    tries: number;
    retry_attempt: number;
    started_at: string | null;
    completed_at: string | null;
}
export interface BulkRowDetail {
    row_number: number;
    row_id: string | null;
    data: unknown;
    records: RowRecord[];
}
export interface Waiting {
    key: string | null;
    row_number: number;
    step_name: string;
    since: string | null;
    timeout_at: string | null;
}
export interface Eligibility {
    eligible: boolean;
    reason: string;
    message: string | null;
}

export interface Flow extends Placed {
    flow_uuid: string;
    name: string;
    state: string;
    run: number;
    undoing: boolean;
    broken: boolean;
    created_at: string;
    tasks: Record<string, number> | null;
}
export interface Atom {
    node: number;
    kind: string;
    name: string;
    state: string | null;
    intention: string | null;
    blockers: number | null;
    worker: string | null;
    result: unknown;
    failure: unknown;
    revert_failure: unknown;
    progress: number | null;
}
export interface FlowEvent {
    created_at: string;
    subject: string;
    from_state: string | null;
    to_state: string | null;
    event: string | null;
    processor: string | null;
    metadata: unknown;
}
export interface FlowDetail extends Flow {
    inputs: unknown;
    problem: unknown;
    atoms: Atom[];
    edges: [number, number][];
    runs: Run[];
}
/** The engine of one run of a flow. */
export interface Run {
    run: number;
    state: string;
    began_at: string;
    ended_at: string | null;
}
export interface Job extends Placed {
    job_uuid: string;
    name: string;
    state: string;
    board: string;
    owner: string | null;
    flow_uuid: string | null;
    created_at: string;
    priority: string;
}

export interface Transition extends Placed {
    relation: string;
    key: unknown;
    from_state: string | null;
    to_state: string | null;
    event: string | null;
    at: string;
}
