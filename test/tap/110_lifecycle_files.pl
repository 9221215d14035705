# Lifecycles as files: pawl plan, apply, sql, diff and watch end to end, with every kind of bad input.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Terminal;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table orders (id integer primary key, state text not null);
insert into orders select g, 'cart' from generate_series(1, 5) g;
create table jobs (id integer primary key, state text not null default 'ready', priority integer not null default 0,
    owner text, lease timestamptz, token bigint not null default 0, attempts integer not null default 0,
    due timestamptz);
SQL

my $orders = orders_diagram(<<'YAML');
pawl:
  machine: order
  tables:
    - table: orders
      column: state
      log: true
YAML
my $jobs_front = <<'YAML';
title: Jobs
pawl:
  machine: job
  tables:
    - table: public.jobs
      column: state
      on_delete: terminal
      log: {hash_chain: true, keep: 1 year}
      queue: {owner: owner, lease: lease, token: token, attempts: attempts}
      timers: {due: due}
      claiming:
        claim: [start]
        claim_order: priority desc
        lease_time: 2 minutes
        on_expiry: crashed
        retry: [fail]
        backoff: {base: 5 s, max_attempts: 3}
      events: {wake: true}
      audit: {on_states: {done: true, failed: false}, keep: 5 years}
      placing: true
YAML
my $jobs_body = <<'MERMAID';
stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : fail
    running --> failed : fail
    running --> ready : crashed
    done --> [*]
    failed --> [*]
    class running owned
MERMAID
my $folder = folder_with('order.mmd' => $orders, 'job.mmd' => orders_diagram($jobs_front, $jobs_body));

# A first plan
my ($text, $status, $err) = command($node, 'plan', $folder);
is($status, 0, 'a plan with changes ends with 0') or diag($err);
like($text, qr/^machine order  new /m, 'the plan names the new machine');
like($text, qr/enforce order on public\.orders\.state/, 'the plan names the table to enforce');
like($text, qr/locks public\.orders SHARE ROW EXCLUSIVE; reads the table/, 'the plan names the lock and the reading');
unlike($text, qr/\033/, 'there are no colours where there is no terminal');
is((command($node, 'plan', '--exit-code', $folder))[1], 2, 'with --exit-code changes end with 2');
my $plan = json_of($node, 'plan', $folder);
is($plan->{steps}[0]{what}, 'define', 'the plan as JSON has its steps');
is(one($node, 'select count(*) from pawl.machine'), '0', 'a plan changes nothing');

# A dry run, and the real one
($text, $status, $err) = command($node, 'apply', '--dry-run', $folder);
is($status, 0, 'a dry run ends well') or diag($err);
like($text, qr/All steps ran and were undone/, 'the dry run says that it is undone');
is(one($node, 'select count(*) from pawl.binding'), '0', 'a dry run changes nothing');
($text, $status, $err) = command($node, 'apply', $folder);
is($status, 0, 'apply ends well') or diag("$text$err");
is(one($node, 'select count(*) from pawl.binding'), '2', 'both tables are enforced');
is(one($node, 'select count(*) from orders_transitions'), '5', 'rows that were there begin their log');
my $made = definitions($node);
like($made, qr/set_claiming\('public\.jobs', 'state', claim => '\{start\}'/, 'the claiming is as the file says');
like($made, qr/audit\('public\.jobs'/, 'the audit is as the file says');
rejected($node, q{update orders set state = 'shipped' where id = 1}, 'PW001', 'the machine is enforced');

# A second time there is nothing to do
($text, $status) = command($node, 'plan', '--exit-code', $folder);
is($status, 0, 'a plan without changes ends with 0 by --exit-code');
like($text, qr/Nothing to do\. 2 bindings are as in the files\./, 'and says so to people');
($text, $status) = command($node, 'apply', $folder);
is($status, 0, 'apply ends well where nothing is to be done');
is(definitions($node), $made, 'and changes nothing the second time');

# Each function's calls say the same as the file
$node->safe_psql('postgres', q{select pawl.set_claiming('jobs', lease_time => '7 minutes')});
like(scalar command($node, 'plan', $folder), qr/claiming\.lease_time: 00:07:00 -> 00:02:00/,
	'a policy that was changed by hand is seen');
is((command($node, 'apply', $folder))[1], 0, 'and is put right without being asked');
is(definitions($node), $made, 'the policies are those of the file again');

# A state that goes while rows stand in it
my $billed = $orders =~ s/paid/billed/gr;
put($folder, 'order.mmd', $billed);
$node->safe_psql('postgres', q{update orders set state = 'paid' where id <= 3});
($text, $status) = command($node, 'plan', $folder);
is($status, 1, 'a plan with a problem ends with 1');
like($text, qr/table public\.orders has rows in states that go: "paid" 3; add to the front matter/,
	'rows in a state that goes are counted');
like($text, qr/remap: \{paid: billed\}/, 'and the remap is guessed');
is((command($node, 'apply', '--yes', $folder))[1], 1, 'such a plan is not applied');
is((command($node, 'plan', '--exit-code', $folder))[1], 1, 'a problem is an error by --exit-code');
put($folder, 'order.mmd', $billed =~ s/  machine: order\n/  machine: order\n  remap: {paid: billed}\n/r);
like(scalar command($node, 'plan', $folder), qr/3 rows in paid become billed/, 'with a remap the plan counts the rows');
my (undef, $unasked, $why) = command($node, 'apply', $folder);
is($unasked, 2, 'a state is not taken away where no one can be asked');
like($why, qr/--yes/, 'and the message names the flag');
for my $answer ('no', '')
{
	my $terminal = Terminal->new($node, 'pawl', 'apply', $folder);
	like($terminal->shows(qr/Only 'yes' is accepted: /), qr/\033\[31m2\. - upgrade/, 'a terminal is asked, in red');
	syswrite $terminal->{pty}, "$answer\n";
	is($terminal->status, 1, "the answer '$answer' ends with 1");
	is(one($node, 'select max(version) from pawl.machine where machine = \'order\''), '1', 'and changes nothing');
}
is((command($node, 'apply', '--yes', $folder))[1], 0, 'with --yes the state goes');
is(one($node, q{select string_agg(distinct state, ' ' order by state) from orders}), 'billed cart',
	'the rows are in the new state');
is(one($node, q{select count(*) from orders_transitions where event = 'pawl.upgrade'}), '3', 'and it is logged');
is((command($node, 'plan', '--exit-code', $folder))[1], 0, 'the remap that stays in the file asks for nothing more');

# Events of the claiming that get other names: the old ones must go before the machine changes.
put($folder, 'job.mmd', orders_diagram($jobs_front =~ s/start/begin/r =~ s/crashed/lost/r,
	$jobs_body =~ s/start/begin/r =~ s/crashed/lost/r));
($text, $status, $err) = command($node, 'apply', '--yes', $folder);
is($status, 0, 'events of policies can be renamed with the machine') or diag("$text$err");
like(definitions($node), qr/claim => '\{begin\}'.*on_expiry => 'lost'/s, 'the claiming has the new events');

# A saved plan
put($folder, 'order.mmd',
	orders_diagram("pawl:\n  machine: order\n  tables:\n    - table: orders\n      column: state\n"
		. "      log: true\n      on_delete: deny\n", $billed =~ s/.*?---\n.*?---\n//sr));
my $saved = PostgreSQL::Test::Utils::tempdir() . '/plan.json';
is((command($node, 'plan', '--out', $saved, $folder))[1], 0, 'a plan is saved');
$node->safe_psql('postgres', q{select pawl.set_claiming('jobs', lease_time => '9 minutes')});
my ($said, $changed) = command($node, 'apply', $saved);
is($changed, 1, 'a saved plan is rejected once the database has changed');
like($said, qr/has changed since the plan was made; nothing was changed/, 'and says why');
is(one($node, q{select on_delete from pawl.binding where relation = 'orders'::regclass}), 'allow',
	'the rejected plan changed nothing');
is((command($node, 'plan', '--out', $saved, $folder))[1], 0, 'the plan is made again');
$node->safe_psql('postgres', q{insert into orders values (100, 'cart')});
is((command($node, 'apply', $saved))[1], 0, 'rows that come in between are no change');
is(one($node, q{select on_delete from pawl.binding where relation = 'orders'::regclass}), 'deny',
	'the saved plan is applied');
like(scalar command($node, 'apply', $saved), qr/Nothing to do/, 'a second time it finds nothing to do');
$node->safe_psql('postgres', q{select pawl.enforce('orders', 'state', 'order', on_delete => 'allow')});
command($node, 'plan', '--out', $saved, $folder);
PostgreSQL::Test::Utils::append_to_file("$saved.forged.json",
	slurp_file($saved) =~ s/select pawl\.enforce/drop table orders; select pawl.enforce/r);
is((command($node, 'apply', "$saved.forged.json"))[1], 1, 'statements in a saved plan are compared and never run');
is(one($node, q{select count(*) from orders}), '6', 'the table is still there');
for my $broken ('', '{', '{"pawl_plan": 2}', '{"pawl_plan": 1}', '[]', '[' x 100_000)
{
	unlink "$saved.broken.json";
	PostgreSQL::Test::Utils::append_to_file("$saved.broken.json", $broken);
	is((command($node, 'apply', "$saved.broken.json"))[1], 2, 'no plan: ' . substr($broken, 0, 20) . ' as a file');
}
is((command($node, 'apply', $folder))[1], 0, 'the folder is applied again');

# A table that a file no longer names
put($folder, 'order.mmd', slurp_file("$folder/order.mmd") =~ s/  tables:.*?---/---/sr);
like(scalar command($node, 'plan', $folder), qr/release public\.orders\.state from order/,
	'a binding goes with its entry');
is((command($node, 'apply', '--yes', $folder))[1], 0, 'and is released with --yes');
is(one($node, 'select count(*) from pawl.binding'), '1', 'only the other binding is left');
unlink "$folder/order.mmd";
unlike(scalar command($node, 'plan', $folder), qr/order/, 'a machine without file and binding is not spoken of');

# Policies that go
put($folder, 'job.mmd', orders_diagram("pawl:\n  machine: job\n  tables:\n    - {table: jobs, column: state}\n",
	$jobs_body =~ s/start/begin/r =~ s/crashed/lost/r));
($text, $status, $err) = command($node, 'apply', '--yes', $folder);
is($status, 0, 'all policies go, in an order that works') or diag("$text$err");
is(one($node, q{select pawl.definition('jobs')}), q{select pawl.enforce('public.jobs', 'state', 'job');},
	'and nothing of them is left');
put($folder, 'job.mmd', orders_diagram($jobs_front, $jobs_body));
($text, $status, $err) = command($node, 'apply', '--yes', $folder);
is($status, 0, 'all policies come back, with the former machine') or diag("$text$err");
is((command($node, 'plan', '--exit-code', $folder))[1], 0, 'and the database is as the file says');

# The other way: files of a database
my $pulled = PostgreSQL::Test::Utils::tempdir() . '/pulled';
is(scalar @{ json_of($node, 'pull', $pulled)->{files} }, 2, 'pull writes a file for each machine');
($text, $status) = command($node, 'plan', '--exit-code', $pulled);
is($status, 0, 'of what was pulled there is nothing to do') or diag($text);
is((command($node, 'pull', $pulled))[1], 0, 'pulled again nothing is to be written');
PostgreSQL::Test::Utils::append_to_file("$pulled/job.mmd", '%% mine');
is((command($node, 'pull', $pulled))[1], 2, 'a file that was changed is not written over');
sound($node, 'after all changes by files');

# A large table is guarded at once and validated afterwards
$node->safe_psql('postgres', <<'SQL');
create table parcels (id integer primary key, state text not null, owner text, lease timestamptz,
    token bigint not null default 0);
insert into parcels select g, case g when 1 then 'unheard of' else 'ready' end from generate_series(1, 5) g;
SQL
my $online = folder_with('parcel.mmd' => orders_diagram(<<'YAML', $jobs_body =~ s/^    running --> ready : fail\n//mr));
pawl:
  machine: parcel
  tables:
    - table: parcels
      column: state
      validate: false
      log: true
      queue: {owner: owner, lease: lease, token: token}
      claiming: {on_expiry: crashed}
YAML
$plan = json_of($node, 'plan', $online);
is(scalar(grep { $_->{reads_table} } @{ $plan->{steps} }), 0, 'with validate: false no step reads the table');
is_deeply($plan->{problems}, [], 'and rows of unknown states are no problem yet');
my $advice = q{validated: call pawl.validate_all('public.parcels', 'state')};
like(join("\n", @{ $plan->{notes} }), qr/^the rows .* will not be \Q$advice\E/m,
	'the plan names the call that comes afterwards');
($text, $status, $err) = command($node, 'apply', $online);
is($status, 0, 'the plan is applied') or diag("$text$err");
rejected($node, q{update parcels set state = 'done' where id = 2}, 'PW001', 'what is written is guarded at once');
is(one($node, 'select count(*) from parcels_transitions'), '0', 'and no row was read');
($text, $status) = command($node, 'plan', '--exit-code', $online);
is($status, 0, 'a binding that is not validated yet is as the file says');
like($text, qr/are not yet \Q$advice\E/, 'and the plan still names the call');
my $online_pulled = PostgreSQL::Test::Utils::tempdir() . '/online';
command($node, 'pull', $online_pulled);
like(PostgreSQL::Test::Utils::slurp_file("$online_pulled/parcel.mmd"), qr/validate: false/, 'pull says it, too');
my $parcel = PostgreSQL::Test::Utils::slurp_file("$online/parcel.mmd");
put($online, 'parcel.mmd', $parcel =~ s/^    done --> \[\*\]\n/    done --> kept : keep\n    kept --> [*]\n/mr);
($text, $status) = command($node, 'plan', $online);
is($status, 1, 'another version is for rows that are in its states');
like($text, qr/has rows in states that go: "unheard of" 1; update them first/, 'and the plan counts the others');
put($online, 'parcel.mmd', $parcel);
rejected($node, q{call pawl.validate_all('parcels', 'state')}, 'PW008', 'the row of an unknown state is found then');
$node->safe_psql('postgres', q{delete from parcels where id = 1; call pawl.validate_all('parcels', 'state')});
is(one($node, 'select count(*) from parcels_transitions'), '4', 'validated rows begin their log');
unlike(scalar command($node, 'plan', '--exit-code', $online), qr/validate_all|validate: /,
	'a validated binding is as the file says, and nothing is advised');
$node->safe_psql('postgres', q{select statement from pawl.missing_indexes('parcels') \gexec});
sound($node, 'after rows were validated');

# A saved plan is for the things that it was made for.
$node->safe_psql('postgres', q{create table crates (id integer primary key, state text, weight integer);
	create table boxes (id integer primary key, state text, weight integer); create role packer;
	create function is_light(crates, crates) returns boolean language sql as 'select true'});
my $things = folder_with(
	'crate.mmd' => orders_diagram("pawl:\n  machine: crate\n  tables:\n    - {table: crates, column: state}\n",
		"stateDiagram-v2\n    [*] --> packed\n    packed --> sent : send [is_light]\n    sent --> [*]\n"),
	'box.mmd' => orders_diagram("pawl:\n  machine: box\n  tables:\n    - {table: boxes, column: state}\n",
		"stateDiagram-v2\n    [*] --> open\n    open --> closed : close\n    closed --> [*]\n"));
my $is_light = 'create or replace function is_light(crates, crates) returns boolean language sql';
for my $change ("$is_light as 'select false'", "$is_light security definer as 'select false'",
	"$is_light set work_mem = '1MB' as 'select false'", 'alter function is_light owner to packer',
	'alter table boxes rename to old_boxes; create table boxes (like old_boxes including all)',
	'alter table boxes alter weight type bigint', 'alter table boxes add note text', 'alter table boxes drop note',
	'alter table boxes enable row level security', 'create policy packed on boxes using (id > 0)')
{
	is((command($node, 'plan', '--out', $saved, $things))[1], 0, 'a plan is saved');
	$node->safe_psql('postgres', $change);
	my ($said, $status) = command($node, 'apply', $saved);
	is($status, 1, "the saved plan is rejected after: $change") or diag($said);
}
is((command($node, 'plan', '--out', $saved, $things))[1], 0, 'the plan is made again');
$node->safe_psql('postgres', 'analyze crates, boxes');
is((command($node, 'apply', $saved))[1], 0, 'without a change it is applied');

no_crash($node);
done_testing();
