# The words that Language.pm finds: those that have another name here, where they are allowed, and why.
package LanguageWords;
use strict;
use warnings;
use utf8;
use Exporter qw(import);
our @EXPORT = qw(@unambiguous @ambiguous @allowed %identifier %given %field $graph);

my $before_move =
	qr/(?:an?|the|each|every|one|no|such|this|that|any|legal|illegal|many|of|these|those|more|first|last|next|newest|its)/i;

# Words that have one meaning here, in prose. The term that replaces them is printed with a hit.
our @unambiguous = (
	[ 'he, him, his' => qr/\b(?:he|him|his|himself)\b/i, 'it, or its name' ],
	[ 'whoever' => qr/\bwhoever|whomever\b/i, 'the caller, the user, any session' ],
	[ 'nobody' => qr/\bnobody\b/i, 'no session, no role; or "only the owner"' ],
	[ 'somebody' => qr/\bsomebody\b/i, 'a session, a processor, a user' ],
	[ 'anybody' => qr/\banybody\b/i, 'any session, any role' ],
	[ 'hop' => qr/\bhop(?:s|ped|ping)?\b/i, 'state change' ],
	[ 'arrow' => qr/\barrows?\b/i, 'transition' ],
	[ 'drawing' => qr/\bdrawings?\b/i, 'machine, diagram' ],
	[ 'door' => qr/\bdoors?\b/i, 'log, or the statement: UPDATE, INSERT into the log, fire' ],
	[ 'remark' => qr/\bremarks?\b/i, 'log entry, note' ],
	[ 'journal' => qr/\bjournal(?:s|ed)?\b/i, 'entry buffer, pending entries' ],
	[ 'refuse, refusal' => qr/\brefus(?:e|es|ed|ing|als?)\b/i, 'reject, rejection' ],
	[ 'objection' => qr/\bobjections?\b/i, 'rejection' ],
	[ 'lapse' => qr/\blapse[sd]?\b/i, 'expire, lease expiry' ],
	[ 'era' => qr/\beras?\b/i, 'position' ],
	[ 'bookmark' => qr/\bbookmarks?\b/i, 'scan position' ],
	[ 'sleeper' => qr/\bsleepers?\b/i, 'waiter' ],
	[ 'who sleeps' => qr/\bwho sleeps?\b/i, 'waiter' ],
	[ 'in hand' => qr/\bin hand\b/i, 'in flight' ],
	[ 'heart' => qr/\bhearts?\b/i, 'heartbeat' ],
	[ 'fence' => qr/\bfence[sd]?\b/i, 'fencing token' ],
	[ 'judge' => qr/\bjudg(?:e|es|ed|ing|ement|ment)s?\b/i, 'validate' ],
	[ 'settle' => qr/\bsettl(?:e|es|ed|ing)\b/i, 'record, complete' ],
);

# Words that have a good meaning too. What is listed under %allowed is not a hit.
our @ambiguous = (
	[ 'who' => qr/\b(?:who|whom)\b/i, 'the processor, the worker, the session that' ],
	[ 'record' => qr/\b(?:on (?:the )?record|(?:the|a|no|its|this) record)\b/i, 'log, log entry' ],
	[ 'move' => qr/\b$before_move moves?\b/i, 'state change' ],
	[ 'edge' => qr/\bedges?\b/i, 'transition' ],
	[ 'tail' => qr/\btails?\b/i, 'newest entry' ],
	[ 'hand' => qr/\bhands?\b/i, 'claim, in-flight work' ],
	[ 'holder' => qr/\bholders?\b/i, 'owner of the lease' ],
	[ 'take' =>
		qr/\btak(?:e|es|en|ing) (?:(?:the|a|an|next|its|their|more|new|these|those|many) )*(?:rows?|steps?|tasks?|jobs?|work|atoms?)\b(?! (?:\w+ ){0,4}through)/i,
			'claim' ],
	[ 'attachment' => qr/\battachments?\b/i, 'binding' ],
);

# The reviewed allowlist: word, what may stand (matched around the hit), and why. A fourth value keeps it to some files.
our @allowed = (
	[ 'who',
		qr/\b(?:users?|operators?|callers?|persons?|people|readers?|maintainers?|developers?|engineers?|attackers?|administrators?|admins?|customers?|authors?|contributors?|everyone|anyone|someone|one|those|colleagues?|clerks?|managers?),? (?:\([^)]*\) )?who(?:m)?\b/i,
		'people are who' ],
	[ 'who', qr/\bwho (?:am i|you are|did|changed|may do|acts|acted|may call|called)\b/i,
		'a question about people: who did it' ],
	[ 'who', qr/\bt\.who\b|\bAS who\b|\btime, who\b/, 'a column of pawl_saga.timeline' ],
	[ 'who', qr/\bwho\b/, 'a column of pawl_saga.timeline', qr{sql/pawl_saga/watch\.sql$} ],
	[ 'refuse, refusal', qr/\brefused: the operation has ended|\blate, refused\b/,
		'an answer to a signal, named by the semantics of bulk operations' ],
	[ 'edge', qr/\bedges\b/, 'pawl_dag.edges, between the steps of a task', qr{sql/pawl_api/tasks\.sql$} ],
	[ 'who', qr/\bpersons to whom the Software\b/, 'the words of a license' ],
	[ 'holder', qr/\bCOPYRIGHT HOLDERS\b/, 'the words of a license' ],
	[ 'record', qr/\brecord (?:type|variable|OID|of state changes)\b/i,
		'the SQL type; the glossary\'s own definition of the log' ],
	[ 'record', qr/\bWAL record\b/i, 'the server\'s own term' ],
	[ 'record', qr/\b(?:DNS|service|CSV) record\b/i, 'the field\'s own term' ],
	[ 'record', qr/./, 'a bulk operation has records, its documents call them so', qr/bulk|docs\/decisions/i ],
	[ 'move', qr/\bmoves? (?:constructor|assignment|semantics)\b/i, 'C++' ],
	[ 'move', qr/\bmoves? (?:\w+ ){0,3}(?:partitions?|folders?|files?)\b/i,
		'a row that PostgreSQL moves between partitions; a file that goes elsewhere' ],
	[ 'move', qr/./, 'a namespace moves from one database to another',
		qr{placement|pawl_move|mover?(?:_commands)?\.[ch]pp$|/scale|scale\.md$|cli/members|121_|122_|123_|124_|125_|132_} ],
	[ 'move', qr/\bnamespace/i, 'a namespace moves from one database to another' ],
	[ 'edge', qr/\bedge cases?\b/i, 'English' ],
	[ 'edge', qr/./, 'a workflow is a graph of steps, and edges are what graphs have',
		qr/dag|saga|graph|flow|workflow|layout|compiler_test/i ],
	[ 'edge', qr/\bpawl_dag\.edges\b/, 'a table that the seed names' ],
	[ 'edge', qr/\b(?:steps and edges|N × M edges)\b/, 'the edges of a workflow\'s graph' ],
	[ 'tail', qr/\btail -|\btail \+|exec tail|tail call/i, 'the program tail' ],
	[ 'hand',
		qr/\bby hand\b|\b(?:other|one|left|right|second)[- ]hand\b|\bhands? (?:over|out|on|back|it|them|to|down)\b|hand-(?:written|made)/i,
		'English: by hand; the verb' ],
	[ 'holder', qr/\bplace-?holders?\b|\block holders?\b|holders? of (?:the|a|its|that|this) locks?/i,
		'locks have holders in the server\'s manual' ],
	[ 'refuse, refusal', qr/\bconnections? (?:is |was |are |were )?refused\b|\bECONNREFUSED\b|refused connections?/i,
		'what the operating system calls it' ],
	[ 'attachment', qr/\bContent-Disposition\b|\battachment;/i, 'an HTTP header' ],
	[ 'fence', qr/\bcode fences?\b|\bfenced (?:code )?blocks?\b|\bmemory fences?\b/i, 'Markdown; the processor' ],
	[ 'journal', qr/\bsystemd\b|\bjournalctl\b|\bjournald?'s\b|\bthe system journal\b/i, 'systemd\'s journal' ],
	[ 'arrow', qr/\barrow keys?\b|ArrowUp|ArrowDown|ArrowLeft|ArrowRight/i, 'a key of the keyboard' ],
);

# Parts of identifiers (split at _ and at capitals).
our %identifier = map { $_ => 1 }
	qw(hop hops arrow arrows whoever nobody somebody anybody bookmark bookmarks door doors era eras lapse lapsed
	sleeper sleepers journal journals refuse refused refuses refusal refusals drawing drawings judge judged judges
	settle settled settles objection
	objections remark remarks heart hearts fence fences tail tails attachment attachments holder holders who whom hand
	hands edge edges he him his);
# Identifiers that are the platform's or a seed's: name, and why.
our %given = (
	hand_over => 'the verb: to hand over', by_hand => 'English: by hand',
	ArrowUp => 'the DOM', ArrowDown => 'the DOM', ArrowLeft => 'the DOM', ArrowRight => 'the DOM',
);
# Fields of the HTTP API that the console reads (they change there first), and a theme of Mermaid.
our %field = map { $_ => 1 } qw(edges edgeLabelBackground);
our $graph = qr/dag|saga|graph|flow|workflow|layout/i;
1;
