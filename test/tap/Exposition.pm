# A strict reader of Prometheus' text format: what is not allowed dies with its line.
package Exposition;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(read_exposition sample);

my %types = map { $_ => 1 } qw(counter gauge histogram);

# metric => {type, help, labels => {name => 1}, samples => {series => value}}; series is name{a="b",...} as it stands.
sub read_exposition
{
	my ($text) = @_;
	my (%families, $family, %ended);
	die "does not end with a line feed\n" unless $text =~ /\n\z/;
	for my $line (split /\n/, $text)
	{
		if ($line =~ /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)$/)
		{
			die "family $1 is there twice\n" if $families{$1};
			die "bad escape: $line\n" if $2 =~ s/\\[\\n]//gr =~ /\\/;
			$family = $families{$1} = { name => $1, help => $2, samples => {}, labels => {} };
		}
		elsif ($line =~ /^# TYPE (\S+) (\S+)$/)
		{
			die "TYPE without its HELP: $line\n" unless $family && $family->{name} eq $1 && !$family->{type};
			die "unknown type: $line\n" unless $types{$2};
			$family->{type} = $2;
		}
		else
		{
			read_sample($family, $line);
		}
	}
	check($_) for values %families;
	return \%families;
}

sub read_sample
{
	my ($family, $line) = @_;
	my $label = qr/[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"/;
	my ($name, $labels, $value) =
		$line =~ /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{($label(?:,$label)*)\})? ([+-]?(?:Inf|[0-9.]+(?:e[+-]?[0-9]+)?)|NaN)$/
		or die "no sample: $line\n";
	die "sample before its TYPE: $line\n" unless $family && $family->{type};
	my $suffix = $family->{type} eq 'histogram' ? qr/_(?:bucket|sum|count)/ : qr//;
	die "sample of another family: $line\n" unless $name =~ /^\Q$family->{name}\E$suffix$/;
	my %seen;
	for ($labels ? $labels =~ /($label)/g : ())
	{
		my ($one) = /^([^=]+)=/;
		die "label twice: $line\n" if $seen{$one}++;
		$family->{labels}{$one} = 1 unless $one eq 'le';
		die "le outside a bucket: $line\n" if $one eq 'le' && $name !~ /_bucket$/;
	}
	my $series = $name . ($labels ? "{$labels}" : '');
	die "series twice: $series\n" if exists $family->{samples}{$series};
	die "counter below zero: $line\n" if $family->{type} eq 'counter' && $value < 0;
	$family->{samples}{$series} = $value;
	return;
}

sub check
{
	my ($family) = @_;
	die "family $family->{name} has no type\n" unless $family->{type};
	die "counter $family->{name} does not end in _total\n"
		if $family->{type} eq 'counter' && $family->{name} !~ /_total$/;
	return unless $family->{type} eq 'histogram';
	my %buckets;
	while (my ($series, $value) = each %{ $family->{samples} })
	{
		next unless $series =~ /^\w+_bucket\{(?:(.*),)?le="([^"]+)"\}$/;
		push @{ $buckets{ $1 // '' } }, [ $2 eq '+Inf' ? 9**9**9 : $2 + 0, $value ];
	}
	for my $labels (keys %buckets)
	{
		my @all = sort { $a->[0] <=> $b->[0] } @{ $buckets{$labels} };
		my $braces = $labels eq '' ? '' : "{$labels}";
		for (1 .. $#all) { die "$family->{name}$braces is not cumulative\n" if $all[$_][1] < $all[ $_ - 1 ][1] }
		my $count = $family->{samples}{"$family->{name}_count$braces"} // die "$family->{name}$braces has no _count\n";
		die "$family->{name}$braces has no _sum\n" unless defined $family->{samples}{"$family->{name}_sum$braces"};
		die "$family->{name}$braces: no bucket +Inf, or not _count\n"
			unless $all[-1][0] == 9**9**9 && $all[-1][1] == $count;
	}
	for (grep { /_count/ } keys %{ $family->{samples} })
	{
		my ($labels) = /_count(?:\{(.*)\})?$/;
		die "$_ has no buckets\n" unless $buckets{ $labels // '' };
	}
	return;
}

# The sum of the samples of a family whose series match.
sub sample
{
	my ($families, $name, $where) = @_;
	my $sum = 0;
	for my $family (values %$families)
	{
		for (keys %{ $family->{samples} })
		{
			$sum += $family->{samples}{$_} if /^\Q$name\E(?:\{|$)/ && (!$where || $_ =~ $where)
		}
	}
	return $sum;
}

1;
