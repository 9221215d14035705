/** Errors as types: one for each SQLSTATE of class PW, so that callers branch by `instanceof` and never by text. */

/** The base of all errors of this library that the server has raised. The message has DETAIL and HINT. */
export class PawlError extends Error {
    detail?: string;
    hint?: string;
    schema?: string;
    table?: string;
    column?: string;
    /** Of class PW: the machine. */
    constraint?: string;

    constructor(
        message: string,
        readonly sqlstate = '',
        options?: ErrorOptions,
    ) {
        super(message, options);
        this.name = new.target.name;
    }
}

/** The connection is lost, or the server shuts down: connect again. The outcome of a pending COMMIT is unknown. */
export class ConnectionLost extends PawlError {}
/** Class 40: two transactions were in each other's way. The same transaction can be repeated at once. */
export class TryAgain extends PawlError {}
/** PW001: the machine has no transition from the old state to the new one. */
export class NoSuchTransition extends PawlError {}
/** PW002: the state of the new row is not an initial state. */
export class NotAnInitialState extends PawlError {}
/** PW003: a guard rejected the transition. */
export class GuardRejected extends PawlError {}
/** PW004: the acting processor does not own the row. */
export class NotTheOwner extends PawlError {}
/** PW005: the lease is lost: it has expired, or the fencing token is stale. */
export class LeaseLost extends PawlError {}
/** PW006: the log cannot be changed. */
export class LogIsImmutable extends PawlError {}
/** PW007: the diagram cannot be read or cannot be held by one column. */
export class DefinitionError extends PawlError {}
/** PW008: unknown machine, state or event. */
export class UnknownObject extends PawlError {}
/** PW009: the namespace is placed in another database. */
export class PlacedElsewhere extends PawlError {}

export const bySqlstate: Record<string, typeof PawlError> = {
    PW001: NoSuchTransition,
    PW002: NotAnInitialState,
    PW003: GuardRejected,
    PW004: NotTheOwner,
    PW005: LeaseLost,
    PW006: LogIsImmutable,
    PW007: DefinitionError,
    PW008: UnknownObject,
    PW009: PlacedElsewhere,
};

/** As pawl.is_transient: the longest prefix that matches decides. */
export const transient: Record<string, boolean> = {
    '08': true, '40': true, '40002': false, '40003': true, '53': true, '55P03': true, '57014': true, '57P': true,
    '57P04': false,
};

/** Whether a statement that failed with this SQLSTATE may succeed unchanged later. */
export function isTransient(sqlstate: string): boolean {
    for (let length = sqlstate.length; length > 1; --length) {
        const found = transient[sqlstate.slice(0, length)];
        if (found !== undefined) return found;
    }
    return false;
}

/** What pg says of an error of the server. */
interface ServerError extends Error {
    code?: string;
    severity?: string;
    detail?: string;
    hint?: string;
    schema?: string;
    table?: string;
    column?: string;
    constraint?: string;
}

function typeOf(caught: ServerError): typeof PawlError {
    const code = caught.code ?? '';
    // a binding with errors => 'check_violation' raises 23514, whose DETAIL begins with the code of class PW
    const own = code === '23514' ? /^(PW\d{3}): /.exec(caught.detail ?? '')?.[1] : code;
    const known = bySqlstate[own ?? ''];
    if (known) return known;
    // without a severity it is none of the server's: the socket has failed
    if (!caught.severity || /^(08|57P0[123])/.test(code)) return ConnectionLost;
    return code.startsWith('40') && isTransient(code) ? TryAgain : PawlError;
}

/** The error of this library for one of pg, which is its `cause`; others are returned as they are. */
export function errorOf(caught: unknown): Error {
    if (caught instanceof PawlError || !(caught instanceof Error)) {
        return caught instanceof Error ? caught : new Error(String(caught));
    }
    const from: ServerError = caught;
    const lost = /^E[A-Z]+$/.test(from.code ?? '') || /^(Connection terminated|Client has)/.test(from.message);
    if (!from.severity && !lost) return caught;
    const lines = [from.message];
    if (from.detail) lines.push(`DETAIL: ${from.detail}`);
    if (from.hint) lines.push(`HINT: ${from.hint}`);
    const error = new (typeOf(from))(lines.join('\n'), from.severity ? (from.code ?? '') : '', { cause: caught });
    const { detail, hint, schema, table, column, constraint } = from;
    return Object.assign(error, { detail, hint, schema, table, column, constraint });
}

/** The errors of pg in a promise become errors of this library. */
export async function translated<T>(promise: Promise<T>): Promise<T> {
    try {
        return await promise;
    } catch (caught) {
        throw errorOf(caught);
    }
}

/** Thrown by a handler: the work has failed, with a type that retries of sagas can match. */
export class Failure extends Error {
    constructor(
        readonly type: string,
        message: string,
    ) {
        super(message);
    }
}

/** Thrown by a handler: no other attempt can succeed. */
export class PermanentFailure extends Error {}

/** Thrown by a handler: try again, and not before `after` seconds have passed (steps only). */
export class RetryLater extends Error {
    constructor(
        message: string,
        readonly after: number,
    ) {
        super(message);
    }
}
