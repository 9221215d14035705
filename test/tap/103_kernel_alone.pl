# The kernel without the packs: it is built, installed and enforces tables where neither
# src/packs nor the SQL of the packs is there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $folder = PostgreSQL::Test::Utils::tempdir();

# What this clone has compiled serves for the kernel, so that it is only linked anew.
system(qq{
	mkdir -p '$folder/tree/src' '$folder/tree/sql/upgrades' '$folder/tree/build/module' &&
	cp -a '$top'/src/. '$folder/tree/src/' && rm -r '$folder/tree/src/packs' &&
	cp -a '$top/sql/pawl' '$top/sql/pawl_test' '$top/sql/pawl_move' '$folder/tree/sql/' &&
	cp -a '$top/extension' '$folder/tree/' && rm '$folder'/tree/extension/pawl_[!mt]*.control &&
	cp -a '$top'/build/module/. '$folder/tree/build/module/' &&
	rm -rf '$folder/tree/build/module/obj/src/packs' '$folder/tree/build/module/pawl.so'
}) == 0 or die 'cannot copy the tree';
my ($install_path, $extensions, $library) = copy_of_installation("$folder/root");
unlink glob("$extensions/pawl*"), $library;
my @make = ('make', '-s', '-C', "$folder/tree/build/module", '-f', '../../extension/module.mk',
	"PG_CONFIG=$install_path/bin/pg_config", 'PACKS=');
command_ok([ @make, 'all' ], 'the kernel is built without the packs');
command_ok([ @make, 'install' ], 'and installed');
is(join(' ', sort map { s{.*/}{}r } glob("$extensions/pawl*.control")),
	'pawl.control pawl_move.control pawl_test.control', 'there are the kernel and the extensions that need no pack');

my $node = new_cluster('main', install_path => $install_path);
$node->safe_psql('postgres', fixture('enforced.sql'));
sound($node, 'without the packs');
rejected($node, "update app.tasks set state = 'dropped' where id = 6", 'PW001', 'a table is enforced');
rejected($node, 'delete from app.tasks_transitions', 'PW006', 'its log is immutable');
is(scalar(sqlstate_of($node, 'create extension pawl_dag')), '0A000', 'there are no packs');
$node->safe_psql('postgres', q(create table jobs (id int primary key, state text not null default 'ready');
	select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> done : finish
    done --> [*]');
	select pawl.enforce('jobs', 'state', 'job');
	insert into jobs values (1);));
is(one($node, q(select pawl.fire('jobs', 1, 'finish'))), 'done', 'pawl.fire works in a kernel built without packs');
$node->safe_psql('postgres', 'load $$pawl$$');

no_crash($node);
done_testing();
