# Reads the files of the repository as language: comments, messages, Markdown and identifiers, never keywords or quoted
# data. language.t wants no hit. Run on its own it tells more:
#   perl test/repository/Language.pm --count            hits by word and folder, and by kind and folder
#   perl test/repository/Language.pm --show NAME ...    each hit in the files whose path contains NAME
package Language;
use strict;
use warnings;
use utf8;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__));
use LanguageWords;
use LineLength;

# Files whose words are data, or frozen, or this list of words.
my $skipped =
	qr{^(?:sql/upgrades/|test/fuzz/corpus/|test/expected/|test/isolation/expected/|test/diagrams/|bench/results/|bench/RESULTS\.md$|test/repository/language|test/repository/Language(?:Words)?\.pm|LICENSE)
	|\.(?:out|json|csv|svg|css|html|ico|png|lock|txt|dict)$}x;

sub slurp
{
	my ($path) = @_;
	open(my $in, '<:encoding(UTF-8)', $path) or die "$path: $!";
	local $/;
	return scalar <$in>;
}

# What stands in a literal of SQL; one that goes on in the next line is one literal.
my $literal = qr/(?:[^']|'')*(?:'[ \t]*\n\s*'(?:[^']|'')*)*/;
sub joined { my ($content) = @_; return $content =~ s/(?<!')((?:'')*)'[ \t]*\n\s*'/$1/gr }

sub language_of
{
	my ($path, $text) = @_;
	return 'markdown' if $path =~ /\.md$/;
	return 'c' if $path =~ /\.(?:cpp|hpp|c|h|def)$/;
	return 'sql' if $path =~ /\.(?:sql|psql)$/;
	return 'diagram' if $path =~ /\.mmd$/;
	return 'script' if $path =~ /\.(?:ts|tsx|mjs|js)$/;
	return 'hash' if $path
		=~ /\.(?:py|pl|pm|t|sh|spec|toml|ya?ml|awk|control)$|(?:^|\/)(?:Makefile|CMakeLists\.txt|privileges|load_order)$/
			|| $text =~ /^#!/;
	return;
}

# A file in pieces: [kind, line, text], kind one of comment, string, code, prose.
sub pieces
{
	my ($path, $text, $language) = @_;
	my @pieces;
	my $line = 1;
	my $add  = sub {
		my ($kind, $piece) = @_;
		push @pieces, [ $kind, $line, $piece ] if $piece =~ /\w/;
		$line += ($piece =~ tr/\n//);
	};
	if ($language eq 'markdown')
	{
		# what is quoted in blocks is run or compared elsewhere
		$text =~ s{^(```|~~~).*?^\1[^\n]*$}{"\n" x ($& =~ tr/\n//)}gmse;
		$text =~ s{`[^`\n]*`}{`-`}g;
		$text =~ s{\]\([^)\s]*\)}{](-)}g;
		$add->('prose', "$_\n") for split /\n/, $text, -1;
		return @pieces;
	}
	if ($language eq 'diagram')
	{
		push @pieces, [ 'comment', 1 + (substr($text, 0, $-[0]) =~ tr/\n//), $1 ] while $text =~ /%%([^\n]*)/g;
		return @pieces;
	}
	if ($language eq 'hash')
	{
		for my $row (split /\n/, $text, -1)
		{
			my $comment = '';
			$comment = $1 if $row =~ s/(?:^|(?<=\s))#+(?![\{\w(\[])(.*)$// && ($comment = $1, 1);
			push @pieces, [ 'comment', $line, $comment ] if $comment =~ /\w/ && $comment !~ /^!/;
			push @pieces, [ 'string', $line, $1 // $2 ] while $row =~ /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/g;
			push @pieces, [ 'code', $line, $1 ] while $row =~ /\b(?:sub|my|our|def|local|function)\s+[\$\@%(]*(\w+)/g;
			push @pieces, [ 'code', $line, $1 ] if $row =~ /^(\w+)\(\)/;
			$line++;
		}
		return @pieces;
	}
	pos($text) = 0;
	while (pos($text) < length $text)
	{
		if ($language eq 'sql')
		{
			if ($text =~ /\G--(?!>)([^\n]*)/gc) { $add->('comment', $1) }
			elsif ($text =~ m{\G/\*(.*?)\*/}gcs) { $add->('comment', $1) }
			elsif ($text =~ /\G\$(?:[a-zA-Z_]\w*)?\$/gc) { }
			elsif ($text =~ /\G'($literal)'/gcs)
			{
				my $lines = ($1 =~ tr/\n//);
				my $whole = joined($1);
				$add->('string', $whole);
				$line += $lines - ($whole =~ tr/\n//) if $whole =~ /\w/;
			}
			elsif ($text =~ /\G((?:(?!--(?!>)|\/\*|\$(?:[a-zA-Z_]\w*)?\$)[^'])+)/gcs) { $add->('code', $1) }
			else { $text =~ /\G./gcs }
		}
		else
		{
			if ($text =~ m{\G//([^\n]*)}gc) { $add->('comment', $1) }
			elsif ($text =~ m{\G/\*(.*?)\*/}gcs) { $add->('comment', $1) }
			elsif ($language eq 'c' && $text =~ /\GR"([^(\s]*)\((.*?)\)\1"/gcs) { $add->('string', $2) }
			elsif ($text =~ /\G"((?:[^"\\\n]|\\.)*)"/gcs) { $add->('string', $1) }
			elsif ($text =~ /\G'((?:[^'\\\n]|\\.)*)'/gc) { $add->('string', $1) }
			elsif ($language eq 'script' && $text =~ /\G`((?:[^`\\]|\\.)*)`/gcs) { $add->('string', $1) }
			elsif ($text =~ m{\G((?:(?!//|/\*|R"[^(\s"]*\()[^"'`])+)}gcs) { $add->('code', $1) }
			elsif ($text =~ /\G(.)/gcs) { $line++ if $1 eq "\n" }
		}
	}
	return @pieces;
}

# What a test is called: the last argument of an assertion, at the end of its statement.
# It is prose whatever words it has.
sub descriptions
{
	my ($path, $text) = @_;
	my @found;
	return @found if $path !~ m{^test/} || $path !~ /\.(?:sql|psql|pl|pm|t)$/;
	while ($text
		=~ /,\s*(?:'((?:[^'\\\n]|''|\\.)*)'|"((?:[^"\\\n]|\\.)*)")(?:\s*\|\|[^;,'"]*)?\)\s*(?:;|from\b|or\s+diag)/g)
	{
		my ($said, $line) = ($1 // $2, 1 + (substr($text, 0, $-[0]) =~ tr/\n//));
		push @found, [ $line, $said ]
			if $said =~ /\w\s+\w/ && $said !~ /[{}]|-->|^\s*(?:select|insert|update|delete|values)\b/;
	}
	return @found;
}

# Names that the SQL of a test declares: functions, tables, views, types, roles, triggers.
sub declared
{
	my ($path, $text) = @_;
	my @found;
	return @found if $path !~ m{^test/.*\.(?:sql|psql|spec|pl)$};
	while ($text
		=~ /\bcreate\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+|unlogged\s+|constraint\s+)?(?:function|procedure|table|view|type|domain|role|trigger|schema)\s+(?:if\s+not\s+exists\s+)?((?:\w+\.)?\w+)/gi)
	{
		push @found, [ 1 + (substr($text, 0, $-[0]) =~ tr/\n//), $1 ];
	}
	return @found;
}

# Is this literal a message, and not data? One word is a name or a value. In tests also SQL and JSON are data.
sub is_message
{
	my ($path, $string) = @_;
	return 0 if $string !~ /\w\s+\w/;
	return 1 if $path !~ m{^(?:test|bench|examples)/};
	return 0 if ($string =~ tr/ //) < 3;
	return $string
		!~ /\b(?:select|insert|update|delete|create|alter|drop|grant|revoke|set|copy|begin|call|truncate|merge|table|from|values)\b|[{}]|-->|<[a-z]|(?:select|pawl\w*\.)\w*\(/i;
}

sub is_allowed
{
	my ($path, $word, $around) = @_;
	for my $entry (@allowed)
	{
		return 1 if $entry->[0] eq $word && $around =~ $entry->[1] && (!$entry->[3] || $path =~ $entry->[3]);
	}
	return 0;
}

sub word_hits
{
	my ($path, $text, $language) = @_;
	my @hits;
	for my $piece (pieces($path, $text, $language))
	{
		my ($kind, $line, $content) = @$piece;
		next if $kind eq 'string' && !is_message($path, $content);
		if ($kind eq 'code')
		{
			next if $path =~ m{^test/} && $language ne 'c' && $language ne 'hash';
			while ($content =~ /([A-Za-z_]\w*)/g)
			{
				my ($name, $before) = ($1, substr($content, 0, $-[0]));
				next if $given{$name} || ($field{$name} && $path =~ m{^console/});
				my $seen = 0;
				for my $part (map { lc } map { split /(?<=[a-z0-9])(?=[A-Z])/ } split /_/, $name)
				{
					next if !$identifier{$part} || $seen++ || ($part =~ /^edges?$/ && $path =~ $graph);
					next if is_allowed($path, $part =~ s/^edges$/edge/r, $name);
					push @hits, [ words => $line + ($before =~ tr/\n//), "name $part", "$name" ];
				}
			}
			next;
		}
		for my $rule (@unambiguous, @ambiguous)
		{
			my ($word, $pattern, $term) = @$rule;
			while ($content =~ /$pattern/g)
			{
				my ($start, $end) = ($-[0], $+[0]);
				my $from   = $start > 30 ? $start - 30 : 0;
				my $around = substr($content, $from, $end - $from + 30) =~ s/\s+/ /gr;
				next if is_allowed($path, $word, $around);
				push @hits,
					[ words => $line + (substr($content, 0, $start) =~ tr/\n//), $word, "$around (write: $term)" ];
			}
		}
	}
	my %seen = map { ("$_->[1] $_->[2]" => 1) } @hits;
	for my $described (descriptions($path, $text))
	{
		my ($line, $said) = @$described;
		for my $rule (@unambiguous, @ambiguous)
		{
			my ($word, $pattern, $term) = @$rule;
			next if $seen{"$line $word"} || $said !~ $pattern || is_allowed($path, $word, $said);
			push @hits, [ words => $line, $word, "$said (write: $term)" ];
		}
	}
	for my $name (declared($path, $text))
	{
		next if $given{ $name->[1] =~ s/.*\.//r };
		for my $part (map { lc } map { split /(?<=[a-z0-9])(?=[A-Z])/ } split /[_.]/, $name->[1])
		{
			push @hits, [ words => $name->[0], "name $part", $name->[1] ]
				if $identifier{$part} && !($part =~ /^edges?$/ && $path =~ $graph);
		}
	}
	return @hits;
}

# One rule for Markdown: a sentence a line. A line of prose ends with its sentence, and holds one.
sub wrap_hits
{
	my ($text) = @_;
	my (@hits, $before);
	my $line = 0;
	$text =~ s{^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$}{"\n" x ($& =~ tr/\n//)}gmse;
	$text =~ s{`([^`\n]*(?:\n[^`\n]+)*)`}{"x" . "\n" x ($1 =~ tr/\n//)}gme;
	for my $row (split /\n/, $text)
	{
		$line++;
		next if $row =~ /^x,?(?: a view)?$/;    # the signature of a function
		my $prose = $row =~ s/\]\([^)]*\)/]/gr =~ s/^\s*(?:[-*]|\d+\.)\s+//r;
		next if $prose !~ /\w/ || $row =~ /^(?:#|\||    )/ && $row !~ /^\s*[-*\d]/;
		push @hits, [ wrap => $line, 'two sentences', substr($row, 0, 60) ]
			if $prose =~ /(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[a-z)\]x"]\. +[A-Z`*\[]/;
		push @hits, [ wrap => $line, 'half a sentence', substr($row, -60) ]
			if $prose =~ /(?:\w|,)$/ && $prose !~ /^(?:\*\*|\[)/ && $row !~ /^\s*(?:[-*]|\d+\.)\s/;
	}
	return @hits;
}

# Each decision has its date under its heading, which a reader takes in at a glance.
sub decision_hits
{
	my ($text) = @_;
	my (@hits, $heading);
	my $line = 0;
	for my $row (split /\n/, $text)
	{
		$line++;
		push @hits, [ wrap => $line, 'no date', $heading ] if $heading && $row !~ /^\*2\d{3}-\d\d-\d\d[.;]/;
		$heading = $row =~ /^### (.*)/ ? $1 : undef;
		push @hits, [ wrap => $line, 'long heading', $heading ] if $heading && length $heading > 90;
	}
	return @hits;
}

# Public functions of an extension explain themselves. Triggers are not called, so they need no example.
sub comment_hits
{
	my ($path, $text, $comments) = @_;
	my @hits;
	return if $path !~ m{^sql/(pawl\w*)/};
	while ($text
		=~ /^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (pawl\w*\.[a-z]\w*)\s*\((.*?)\)\s*(?:RETURNS (.*?))?\s*(?:LANGUAGE|AS)\b/gmsi)
	{
		my ($name, $arguments, $returns, $line) = ($1, $2, $3 // '', 1 + (substr($text, 0, $-[0]) =~ tr/\n//));
		next if $returns =~ /^(?:event_)?trigger/i;
		my @comments = @{ $comments->{$name} // [] };
		if (!@comments) { push @hits, [ docs => $line, 'no COMMENT', $name ]; next }
		my $comment = join ' ', @comments;
		my @missing = grep { $comment !~ /\Q$_\E/ } qw(Errors: Privileges: Example:);
		my $depth = 0;
		my @parts = ('');
		for my $one (split //, $arguments)
		{
			$depth += $one =~ /[(\[]/ ? 1 : $one =~ /[)\]]/ ? -1 : 0;
			if ($one eq ',' && !$depth) { push @parts, '' }
			else { $parts[-1] .= $one }
		}
		push @parts, split /,(?![^(]*\))/, $1 if $returns =~ /^TABLE\s*\((.*)\)/is;
		for my $part (@parts)
		{
			my ($first) = $part =~ /^\s*(?:VARIADIC |INOUT |IN |OUT )?"?(\w+)"?\s+\S/ or next;
			push @missing, $first if $comment !~ /\b\Q$first\E\b/;
		}
		my ($call) = $comment =~ /Example:(.*)/s;
		push @missing, 'a call of itself' if defined $call && $call !~ /\Q$name\E\s*\(/;
		push @hits, [ docs => $line, 'COMMENT incomplete', "$name lacks " . join(', ', @missing) ] if @missing;
	}
	return @hits;
}

sub files
{
	return grep { -f && !-l && $_ !~ $skipped } split /\n/, `git ls-files --cached --others --exclude-standard`;
}

# Every hit: file => list of [kind, line, word, text].
sub hits
{
	my @files = @_ ? @_ : files();
	my (%comments, %found);
	for my $path (grep { m{^sql/.*\.sql$} && $_ !~ $skipped } files())
	{
		my $text = slurp($path);
		push @{ $comments{$1} }, joined($2)
			while $text =~ /^COMMENT ON (?:FUNCTION|PROCEDURE) (pawl\w*\.\w+)\s*\([^;']*?\)\s+IS\s+E?'($literal)'/gmsi;
	}
	for my $path (@files)
	{
		my $text = slurp($path);
		my $language = language_of($path, $text) or next;
		my @hits = word_hits($path, $text, $language);
		push @hits, length_hits($path, $text) if $language ne 'markdown';
		push @hits, wrap_hits($text) if $language eq 'markdown';
		push @hits, decision_hits($text) if $path eq 'docs/decisions.md';
		push @hits, comment_hits($path, $text, \%comments) if $language eq 'sql';
		push @hits, [ ordinal => 0, 'ordinal', $path ] if $path =~ m{^sql/.*/\d+_\w+\.sql$};
		my ($base) = $path =~ m{([^/]*)\.\w+$};
		if (defined $base && $path =~ m{^(?:src|sql|client|console)/})
		{
			push @hits, [ words => 0, "name $_", "file $path" ]
				for grep { $identifier{$_} && !(/^edges?$/ && $path =~ $graph) } map { lc } split /[_.-]/, $base;
		}
		$found{$path} = \@hits if @hits;
	}
	return \%found;
}

sub main
{
	my ($mode, @names) = @_;
	if ($mode eq '--show')
	{
		my $found = hits(grep { my $path = $_; !@names || grep { index($path, $_) >= 0 } @names } files());
		for my $path (sort keys %$found)
		{
			printf "%s:%d: %s %s: %s\n", $path, @{$_}[ 1, 0, 2, 3 ] for @{ $found->{$path} }
		}
		return 0;
	}
	my $found = hits();
	if ($mode eq '--count')
	{
		my (%words, %folders, %total);
		for my $path (keys %$found)
		{
			my $folder = $path =~ m{/} ? $path =~ s{/[^/]*$}{}r : '.';
			$folder = join '/', (split m{/}, $folder)[ 0 .. ($folder =~ m{/} ? 1 : 0) ];
			for my $hit (@{ $found->{$path} })
			{
				my $word = $hit->[2] =~ s/^(\w+), /$1, /r;
				$words{"$hit->[0]: $word"}++;
				$folders{$folder}{ $hit->[0] }++;
				$total{ $hit->[0] }++;
			}
		}
		printf "%6d  %s\n", $words{$_}, $_ for sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words;
		my @kinds = qw(words length docs wrap ordinal);
		printf "\n%-28s" . '%9s' x @kinds . "\n", 'folder', @kinds;
		for my $folder (sort keys %folders)
		{
			printf "%-28s" . '%9d' x @kinds . "\n", $folder, map { $folders{$folder}{$_} // 0 } @kinds
		}
		printf "%-28s" . '%9d' x @kinds . "\n", 'all', map { $total{$_} // 0 } @kinds;
	}
	else { die "usage: Language.pm --count | --show NAME ...\n" }
	return 0;
}

unless (caller)
{
	binmode STDOUT, ':encoding(UTF-8)';
	chdir dirname(abs_path(__FILE__)) . '/../..' or die $!;
	exit main(@ARGV ? @ARGV : '--count');
}
1;
