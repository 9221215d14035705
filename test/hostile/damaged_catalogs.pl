# Catalogs that are damaged at random: fields of other rows, nulls, numbers out of range, other relations, columns of
# other types, rows that are gone or there twice, and tables and logs that are no longer what the catalog says. Whatever
# is done then is an error with a SQLSTATE of its own, or succeeds; the server never crashes, and without the damage all
# is well again. PAWL_SEEDS="7" or "1 500" runs these alone; a crash names its seed in the server's log.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($first, $last) = (1, $ENV{PAWL_LONG} ? 10_000 : 150);
($first, $last) = ($1, $2 // $1) if ($ENV{PAWL_SEEDS} // '') =~ /^(\d+)(?:\s+(\d+))?$/;
my $probes = $ENV{PAWL_PROBES} // 12;
my $batch = 50;

my $node = new_cluster('harm',
	conf => "log_min_messages = log\nrestart_after_crash = off\nmax_locks_per_transaction = 512\n");
$node->safe_psql('postgres', join '',
	map { slurp_file("$FindBin::Bin/../tap/$_") } qw(enforced.sql audited.sql owned.sql));
$node->safe_psql('postgres', <<'SQL');
alter table app.tasks add column traceparent text;
create table app.regions (region text primary key);
insert into app.regions select distinct region from app.parcels;
select pawl.set_lock_order('app.parcels', 'app.regions'), pawl.set_log_token('app.jobs');
select pawl.set_trace('app.tasks', 'traceparent', null, 'state');
select pawl.keep_log('app.tasks', '1 day', state_column => 'state'), pawl.create_consumer('harm');
select count(*) from pawl.claim(null::app.jobs, processor => 'worker', batch => 4, queue => 'fast');
update app.jobs set due = now() - interval '1 h' where id = 12;
-- the damage is to come through
alter event trigger pawl_adopt disable; alter event trigger pawl_follow disable; alter event trigger pawl_gone disable;
alter event trigger pawl_rearm disable;
SQL
$node->safe_psql('postgres', slurp_file("$FindBin::Bin/include/damage.psql"));
my $sound = q(select string_agg(concat_ws(' ', relation, check_name, detail), '; ') from pawl.health()
	where status = 'error' and check_name <> 'event_triggers');
is(one($node, $sound), '', 'the catalog is sound at first');

my (%codes, @internal);
my ($done, $crashed) = (0, 0);
for (my $from = $first; $from <= $last && !$crashed; $from += $batch)
{
	my $to = $from + $batch - 1 < $last ? $from + $batch - 1 : $last;
	my $script = join '', map { "select $_, r.probe, r.became, r.did from harm.run($_, $probes) r;\n" } $from .. $to;
	my ($out, $err) = ('', '');
	my $status = $node->psql('postgres', "set client_min_messages to error; set statement_timeout to '60s';\n$script",
		stdout => \$out, stderr => \$err, extra_params => ['-A', '-F', "\x01", '-R', "\x02"], on_error_stop => 0);
	for my $row (split /\x02|\n(?=\d+\x01)/, $out)
	{
		my ($seed, $probe, $became, $did) = split /\x01/, $row;
		next unless defined $became;
		my ($code) = $became =~ /^(\S+)/;
		++$codes{$code};
		push @internal, "seed $seed: $probe: $became\n  after $did" if $code =~ /^(?:XX000|0A000 unexpected|57014)/;
	}
	if ($err =~ /terminated|closed the connection|could not connect/ || $status == 2)
	{
		$crashed = 1;
		diag("seeds $from to $to: $err");
		diag(join "\n", (grep { /seed \d+:|terminated|TRAP/ } split /\n/, slurp_file($node->logfile))[-8 .. -1]);
		last;
	}
	diag($err) if $err =~ /ERROR/;
	$done += $to - $from + 1;
	note("$done damaged catalogs") if $done % 1000 == 0;
}
ok(!$crashed, "$done damaged catalogs, no crash");
is(scalar(@internal), 0, 'every error has a SQLSTATE of its own')
	or diag(join "\n", @internal[0 .. ($#internal < 12 ? $#internal : 12)]);
diag(join ' ', map { "$_ $codes{$_}" } sort { $codes{$b} <=> $codes{$a} } keys %codes)
	if $ENV{PAWL_LONG} || $ENV{PAWL_SEEDS};
unless ($crashed)
{
	my $errors = 0;
	$errors += $codes{$_} for grep { $_ ne 'ok' } keys %codes;
	cmp_ok($codes{XX001} // 0, '>', 0, 'damage is reported as what it is') if $last - $first > 100;
	cmp_ok($errors, '>', 0, 'the damage is felt');
	is(one($node, $sound), '', 'without the damage the catalog is sound');
	is(one($node, 'select * from pawl.verify()'), '', 'and so are rows and logs');
}
no_crash($node) unless $crashed;
done_testing();
