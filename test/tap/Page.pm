# The examples of a page: each ```sql block, and what it gives, where the page shows that in a block right behind it.
package Page;

use strict;
use warnings;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(gives_what_it_says);

# The cells of what psql prints: the widths of columns are the page's own.
sub cells
{
	return map { s/\s*\|\s*/|/gr } map { s/^\s+|\s+$//gr } grep { !/^\s*$|^[-+]+$/ } split /\n/, shift // '';
}

# Pastes the examples of the text into one psql, in their order, and compares what each gives. psql may print more than
# the page shows (INSERT 0 1, counts of rows) unless exact is set, but no error that is not shown. Returns all output.
#   name      of the page, for the names of the tests
#   text      of the page, or of a section
#   psql      the command that connects psql to a database which has what the page needs, as a list
#   folder    where the script may be written
#   exact     an example that has an answer prints that answer and nothing else
sub gives_what_it_says
{
	my (%o) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @examples;
	push @examples, { query => $1, answer => $2 } while $o{text} =~ /^```sql\n(.*?)^```\n(?:```\n(.*?)^```\n)?/msg;
	my $script = "$o{folder}/" . ($o{name} =~ s/\W/_/gr) . '.sql';
	open(my $out, '>', $script) or die "$script: $!";
	print $out "$examples[$_]{query}\n\\echo \@\@$_\n" for 0 .. $#examples;
	close $out or die "$script: $!";
	my @psql = (@{ $o{psql} }, '-X', '-q', '-P', 'pager=off', '-P', 'footer=off', '-f', $script);
	open(my $psql, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'psql', @psql) or die "psql: $!";
	my $said = my $all = do { local $/; <$psql> } // '';
	close $psql;

	for my $number (0 .. $#examples)
	{
		my ($query, $answer) = @{ $examples[$number] }{qw(query answer)};
		my $name = "$o{name}: " . ($query =~ /([^\n]*)/)[0];
		$said =~ s/\A(.*?)^\@\@$number\n//ms or do { fail("$name: it was run"); diag($all); next };
		my @got = cells(join "\n", map { s/^psql:\S+?:\d+: //r } grep { !/^psql:\S+?:\d+: NOTICE:/ } split /\n/, $1);
		my @want = cells($answer);
		if ($o{exact} && @want) { is(join("\n", @got), join("\n", @want), $name); next }
		# The lines of the page come in its order; others are left out, but for errors.
		my @seen;
		for my $line (@got)
		{
			if (@seen < @want && $line eq $want[@seen]) { push @seen, $line }
			elsif ($line =~ /^(?:ERROR|FATAL|error):/) { push @seen, $line; last }
		}
		is(join("\n", @seen), join("\n", @want), $name) or diag("it gives:\n" . join("\n", @got));
	}
	cmp_ok(scalar(grep { $_->{answer} } @examples), '>', 0, "$o{name} shows what its examples give");
	return $all;
}

1;
