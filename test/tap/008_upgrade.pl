# ALTER EXTENSION pawl UPDATE: a database made at an older version comes to the newest with its data and its
# enforcement, and its catalog is then that of a fresh install. The older version is made here (test/upgrade); the
# newest library serves it until the update.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use OlderVersion;
use PawlTest;
use Test::More;

my $node = new_cluster('main', bare => 1, install_path => installation_with_older_version());
my $newest = one($node, q(select default_version from pg_available_extensions where name = 'pawl'));

# Everything of the extension, one line each, in an order that does not depend on OIDs.
my $catalog = <<'SQL';
with member as (
    select d.classid, d.objid from pg_depend d
     where d.refclassid = 'pg_extension'::regclass
         and d.refobjid = (select oid from pg_extension where extname = 'pawl') and d.deptype = 'e'),
acl(kind, object, acl) as (
    select 'function', p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner)) from pg_proc p
    join member on classid = 'pg_proc'::regclass and objid = p.oid
    union all select 'table', c.oid::regclass::text, coalesce(c.relacl, acldefault('r', c.relowner)) from pg_class c
    join member on classid = 'pg_class'::regclass and objid = c.oid
    union all select 'schema', n.nspname, n.nspacl from pg_namespace n
    join member on classid = 'pg_namespace'::regclass and objid = n.oid),
tables as (select c.* from pg_class c join member on classid = 'pg_class'::regclass and objid = c.oid),
lines(line) as (
    select 'member ' || pg_describe_object(classid, objid, 0) from member
    union all select pg_get_functiondef(objid) from member where classid = 'pg_proc'::regclass
    union all select format('acl %s %s: %s %s %s %s', kind, object, a.grantee::regrole, a.privilege_type,
            a.is_grantable, a.grantor::regrole) from acl, aclexplode(acl.acl) a
    union all select format('comment %s %s', pg_describe_object(m.classid, m.objid, coalesce(d.objsubid, 0)),
        d.description)
      from member m left join pg_description d on d.classoid = m.classid and d.objoid = m.objid
    union all select format('column %s %s %s %s %s %s %s', attrelid::regclass, a.attnum, attname,
        format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation, pg_get_expr(adbin, adrelid))
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0
      left join pg_attrdef on adrelid = attrelid and adnum = a.attnum
    union all select format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(c.oid))
    from tables t join pg_constraint c on c.conrelid = t.oid
    union all select pg_get_indexdef(i.indexrelid) from tables t join pg_index i on i.indrelid = t.oid
    union all select format('trigger %s %s %s %s', tgenabled, pg_get_triggerdef(g.oid), tgconstraint <> 0,
        obj_description(g.oid, 'pg_trigger')) from tables t join pg_trigger g on g.tgrelid = t.oid and not tgisinternal
    union all select format('event trigger %s %s %s %s %s', evtname, evtevent, evtenabled, evttags,
        evtfoid::regprocedure) from pg_event_trigger where evtname ~ '^pawl'
    union all select format('dumped %s', c::regclass) from pg_extension, unnest(extconfig) c where extname = 'pawl'
    union all select format('schema %s relocatable %s', extnamespace::regnamespace, extrelocatable) from pg_extension
    where extname = 'pawl')
select line from lines order by line collate "C"
SQL

$node->safe_psql('postgres', 'create database fresh');
$node->safe_psql('fresh', 'create extension pawl');
is(one($node, 'select count(*) > 500 from (' . $catalog . ') x', 'fresh'), 't', 'the comparison sees the extension');

# A path leads from every version that has an install script.
my @versions = split /\n/, one($node,
	q(select version from pg_available_extension_versions where name = 'pawl' and version <> '0.1.0' order by 1));
is_deeply(\@versions, ['0.0.9'], 'there is an older version');
for my $version (@versions)
{
	my $database = 'from_' . $version =~ s/\W/_/gr;
	$node->safe_psql('postgres', "create database $database");
	$node->safe_psql($database, "create extension pawl version '$version'");
	isnt($node->safe_psql($database, $catalog), $node->safe_psql('fresh', $catalog), "$version is another version");
	$node->safe_psql($database, 'alter extension pawl update');
	is(one($node, q(select extversion from pg_extension where extname = 'pawl'), $database), $newest,
		"$version comes to $newest");
	my ($upgraded, $fresh) = map {
		my $d = $_;
		+{ map { $_ => 1 }
				split /\n(?=member |acl |comment |column |constraint |trigger |event trigger |dumped |schema |CREATE )/,
			$node->safe_psql($d, $catalog) }
	} $database, 'fresh';
	is(join("\n", grep { !$fresh->{$_} } sort keys %$upgraded), '',
		"$version: nothing there that a fresh install has not");
	is(join("\n", grep { !$upgraded->{$_} } sort keys %$fresh), '',
		"$version: nothing missing that a fresh install has");
}

# Data and enforcement survive, also for a session that was there before.
$node->safe_psql('postgres', 'create database used');
$node->safe_psql('used', "create extension pawl version '0.0.9'");
$node->safe_psql('used', fixture('enforced.sql'));
my $logs = q(select md5(string_agg(t::text, '|' order by id)) from app.tasks_transitions t
          union all select md5(string_agg(t::text, '|' order by id)) from app.vehicles_transitions t
    union all select md5(string_agg(row(machine, version, source, diagram, unbound, defined_at, defined_by)::text, '|'
        order by machine, version)) from pawl.machine union all select md5(string_agg(row(relation, state_column,
            machine, version, key_columns, history, most_recent, hash_chain, on_delete, always,
        enforced_at, enforced_by, history_view, log_key_columns, relation_oid, state_attnum, key_attnums)::text, '|'
            order by relation::text, state_column)) from pawl.binding);
my $before = one($node, $logs, 'used');
my $session = $node->background_psql('used', on_error_stop => 0);
is($session->query("update app.tasks set state = 'closed' where id = 41 returning state"), 'closed',
	'a session moves a row before the update');
$before = one($node, $logs, 'used');
$node->safe_psql('used', 'alter extension pawl update');
is(one($node, $logs, 'used'), $before, 'machines, bindings and logs are untouched');
is($session->query("update app.tasks set state = 'open' where id = 41 returning state"), 'open', 'the session goes on');
$session->query("update app.tasks set state = 'nonsense' where id = 41");
like($session->{stderr}, qr/no transition from "open" to "nonsense"/, 'and is validated');
$session->quit;
sound($node, 'after the update', 'used');
rejected($node, "update app.tasks set state = 'dropped' where id = 6", 'PW001', 'plain table', 'used');
rejected($node, "update app.tasks set state = 'closed', note = null where id = 40", 'PW003', 'guard', 'used');
rejected($node, "update app.parcels set state = 'packed' where no = 15", '23514', 'partitioned table', 'used');
rejected($node, "update app.lorries set state = 'lost' where id = 11", 'PW001', 'inheritance child', 'used');
rejected($node, "set session_replication_role = replica; update app.lorries set state = 'lost' where id = 11", 'PW001',
	'always', 'used');
rejected($node, 'delete from app.tasks_transitions', 'PW006', 'the log', 'used');
accepted($node, 'alter table app.tasks rename column phase to stage', 'a rename is followed', 'used');
accepted($node, "create table app.parcels_more partition of app.parcels default; insert into app.parcels values "
	. "('r9', 900); update app.parcels set state = 'lost' where no = 15", 'a new partition is adopted', 'used');
is(one($node, "select sort_key, to_state from pawl.history('app.parcels', row('r0', 15)) where most_recent", 'used'),
	'3|lost', 'and the log goes on');
sound($node, 'after use', 'used');

no_crash($node);
done_testing();
