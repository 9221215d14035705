# docs/lifecycle-files.md can be pasted: files are written and changed as the page shows, commands print what it shows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', bare => 1);
$node->safe_psql('postgres', 'create database shop');
$node->safe_psql('shop', 'create extension pawl');
my $top = PostgreSQL::Test::Utils::tempdir();
my $page = slurp_file("$FindBin::Bin/../../docs/lifecycle-files.md");

# Carries out a diff of a file: each hunk is found by its lines and replaced.
sub patch
{
	my ($path, $hunk) = @_;
	my (@before, @after);
	for my $line (split /\n/, $hunk)
	{
		my ($mark, $rest) = $line =~ /^(.)(.*)$/ or next;
		push @before, $rest if $mark ne '+';
		push @after, $rest if $mark ne '-';
	}
	my $text = slurp_file($path);
	my $count = () = $text =~ /^\Q@{[ join "\n", @before ]}\E$/mg;
	is($count, 1, "the diff of $path has one place");
	my ($old, $new) = (join("\n", @before), join("\n", @after));
	$text =~ s/^\Q$old\E$/$new/m;
	put($top, $path =~ s{^\Q$top\E/}{}r, $text);
	return;
}

# Runs a command of the page in its folder.
sub run_line
{
	my ($line) = @_;
	my ($out, $err) = PostgreSQL::Test::Utils::run_command([ 'bash', '-c',
		"cd '$top' && PATH=$ENV{PAWL_PROGRAMS}:\$PATH "
			. "PGHOST='" . $node->host . "' PGPORT=" . $node->port . " PGDATABASE=shop $line" ]);
	return "$out$err";
}

my ($three) = $page =~ /^(## A first file\n.*?)^## Front matter\n/ms or die 'no section of changes';
my ($said, $plans) = ('', 0);
while ($three =~ /^```(\w*)(?: (\S+))?\n(.*?)^```\n/msg)
{
	my ($language, $file, $block) = ($1, $2, $3);
	if ($language eq 'text') { mkdir "$top/lifecycles"; put($top, $file, $block) }
	elsif ($language eq 'diff') { patch("$top/$file", $block) }
	elsif ($language eq 'sql') { $node->safe_psql('shop', $block) }
	elsif ($language eq 'sh')
	{
		$said = run_line($block);
		unlike($said, qr/^pawl: /m, "it runs: $block") if $block !~ /plan/;
	}
	elsif ($language eq '')
	{
		$plans++;
		is($said, $block =~ s/\n\z//r, "plan $plans of the page is what the command prints");
	}
}
is($plans, 5, 'the page shows the plan of each change');
is($node->safe_psql('shop', q{select string_agg(id || state, ' ' order by id) from orders}), '1cart 2cart 3billed',
	'the rows are as the page says');
is($node->safe_psql('shop', 'select on_delete from pawl.binding'), 'terminal', 'and the policy is');

# The tables of the page name every key.
my %keys;
for (qw(key on_delete always errors log most_recent hash_chain log_name log_partition keep only_terminal period ahead
	queue owner lease token attempts max_attempts timers due claiming claim claim_order lease_time on_expiry
	on_expiry_else retry backoff backoff_column operator_events events wake audit on_states into_table parent trace
	traceparent tracestate
	lock_after log_token result_columns placing machine tables remap unbound))
{
	$keys{$_} = 1 if $page !~ /(?<!\w)$_(?!\w)/;
}
is(join(' ', sort keys %keys), '', 'every key of the front matter is on the page');

# The other commands of the page
my @commands = map { split /\n/ } ($page =~ /^## Differences\n```sh\n(.*?)^```/ms)[0];
put($top, "$_.mmd",
	orders_diagram('', $_ eq 'old' ? undef : slurp_file("$top/lifecycles/order.mmd") =~ s/.*?---\n.*?---\n//sr))
  for qw(old new);
unlike(run_line($_), qr/^pawl: /m, "it runs: $_") for @commands;

no_crash($node);
done_testing();
