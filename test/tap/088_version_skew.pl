# Library and SQL objects of different versions: a clear error or compatible, and never a table that is not enforced.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my ($install_path, $extensions, $library) = copy_of_installation("$folder/root");
my $node = new_cluster('main', install_path => $install_path, streaming => 1);
$node->safe_psql('postgres', fixture('enforced.sql'));

# SQL objects that are newer than the library: nothing is installed, and what is there goes on.
my $script = slurp_file("$extensions/pawl--0.1.0.sql");
append_to_file("$extensions/pawl--0.2.0.sql", $script);
append_to_file("$extensions/pawl--0.1.0--0.2.0.sql",
	"SELECT pawl._check_library(e.extversion) FROM pg_catalog.pg_extension e WHERE e.extname = 'pawl';\n");
$node->safe_psql('postgres', 'create database newer');
my ($state, $err) = sqlstate_of($node, "create extension pawl version '0.2.0'", 'newer');
is($state, '55000', 'an older library does not serve newer SQL objects');
like($err,
	qr/the installed library has version 0\.1\.0.*SQL objects to install have version 0\.2\.0.*restart the server/s,
	'the error says what to do');
is(one($node, q(select count(*) from pg_extension where extname = 'pawl'), 'newer'), '0', 'and nothing is installed');
is(scalar(sqlstate_of($node, "alter extension pawl update to '0.2.0'")), '55000', 'an update is rejected, too');
is(one($node, q(select extversion from pg_extension where extname = 'pawl')), '0.1.0',
	'and the version is the one before');
rejected($node, "update app.tasks set state = 'dropped' where id = 6", 'PW001', 'enforced as before');

# The library is missing: writes fail, and no row changes.
rename($library, "$library.away") or die $!;
my $before = one($node, 'select md5(string_agg(t::text, $$|$$ order by id)) from app.tasks t');
is(scalar(sqlstate_of($node, "update app.tasks set state = 'closed' where id = 6")), '58P01',
	'without the library an UPDATE fails');
is(scalar(sqlstate_of($node, "insert into app.tasks (id) values (1000)")), '58P01', 'an INSERT fails');
is(scalar(sqlstate_of($node, 'delete from app.tasks where id = 6')), '58P01', 'a DELETE fails');
is(scalar(sqlstate_of($node, 'truncate app.tasks')), '58P01', 'a TRUNCATE fails');
is(scalar(sqlstate_of($node, q(copy app.tasks (id) from program 'echo 1001'))), '58P01', 'a COPY fails');
is(one($node, 'select md5(string_agg(t::text, $$|$$ order by id)) from app.tasks t'), $before, 'nothing has changed');
rename("$library.away", $library) or die $!;
accepted($node, "update app.tasks set state = 'closed', note = 'back' where id = (select min(id) from app.tasks where "
	. "state = 'open')", 'with the library rows change again');

# pg_upgrade takes machines, bindings, logs and their enforcement along.
$node->stop;
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded', install_path => $install_path);
$upgraded->init;
chdir $folder or die $!;
my $bin = "$install_path/bin";
command_ok(['pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $upgraded->data_dir, '-b', $bin, '-B', $bin,
	'-s', $node->host, '-p', $node->port, '-P', $upgraded->port], 'pg_upgrade succeeds');
$upgraded->append_conf('postgresql.conf', "max_prepared_transactions = 10\n");
$upgraded->start;
sound($upgraded, 'after pg_upgrade');
rejected($upgraded, "update app.tasks set state = 'dropped' where id = 6", 'PW001', 'after pg_upgrade');
rejected($upgraded, 'delete from app.tasks_transitions', 'PW006', 'the log after pg_upgrade');

no_crash($upgraded);
done_testing();
