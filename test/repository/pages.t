#!/usr/bin/env perl
# The SQL of the pages that a new user pastes, and of an example, raises no error and no warning that the page does not
# announce: shown in its output, or as a comment of the statement (-- PW003: ..., -- WARNING: ...).
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

# What pawl.enforce says of columns that the next calls name.
my $next_step = qr/have no owner in the owned states of machine|^timers of machine "\w+" do not fire on table/;

sub slurp {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!";
    local $/;
    return scalar <$in>;
}

sub sql_of { return join "\n", $_[0] =~ /^```sql\n(.*?)^```\n/msg }

# unannounced(name, text of the page, its SQL, psql options): errors and warnings that the page does not announce. psql
# names the last line of the statement.
sub unannounced {
    my ($name, $page, $sql, @options) = @_;
    my $script = "$ENV{PAWL_RUN}/pages_" . ($name =~ s/\W/_/gr) . '.sql';
    my @lines = split /\n/, $sql;
    open(my $out, '>', $script) or die "$script: $!";
    print $out "$sql\n";
    close $out or die "$script: $!";
    my @psql = ('psql', '-Xqv', 'VERBOSITY=verbose', @options, '-f', $script);
    open(my $psql, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'psql', @psql) or die "psql: $!";
    my @found;
    while (my $said = <$psql>) {
        next unless $said =~ /^psql:\S+?:(\d+): (ERROR|WARNING):  (\w{5}): (.*)/;
        my ($line, $level, $code, $message) = ($1, $2, $3, $4);
        next if $message =~ $next_step || index($page, "$level:  $message") >= 0;
        my $announced = $level eq 'ERROR' ? $code : $level;
        push @found, "$level $code: $message (line $line: $lines[$line - 1])"
            unless $lines[$line - 1] =~ /-- \Q$announced\E/;
    }
    close $psql;
    return join "\n", @found;
}

sub database {
    my ($name, @extensions) = @_;
    system('createdb', $name) == 0 or die "no database $name";
    for my $extension (@extensions) {
        my $said = `psql -Xqd $name -c 'create extension $extension cascade' 2>&1` =~ s/^NOTICE:.*\n//mgr;
        is($said, '', "$name: create extension $extension has no warning");
    }
    return ('-d', $name);
}

SKIP: {
    skip 'no private server: run by make test', 1 unless $ENV{PAWL_RUN};
    my @packs = database('pages_packs', 'pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api');
    is(`psql -XAt $packs[0] $packs[1] -c "select * from pawl.health() where status <> 'ok'"`, '',
        'nothing is wrong with packs as they are installed');
    my @diagrams = (glob('sql/*/*.mmd'), glob('examples/*/*.mmd'));
    cmp_ok(scalar(@diagrams), '>', 14, 'there are diagrams');
    for my $file (@diagrams) {
        my $diagram = slurp($file) =~ s/\A---\n.*?^---\n//msr;
        is(`psql -XAt $packs[0] $packs[1] -c "select code, line, message from pawl.check(\\\$\\\$$diagram\\\$\\\$)
            where severity <> 'info'"`, '', "$file is without warnings");
    }
    for my $page ('README.md', 'docs/start.md', 'docs/guide.md', 'docs/reference.md') {
        my $text = slurp($page);
        my $extension = $text =~ /'pawl_dag\.steps'/ ? 'pawl_dag' : 'pawl';
        my @in =
            database('pages_' . ($page =~ s/\W/_/gr), $text =~ /^create extension pawl\b/m ? () : $extension);
        is(unannounced($page, $text, sql_of($text), @in), '', "$page announces its errors and warnings");
    }
    my @in = database('pages_table', 'pawl');
    my $table = slurp('examples/table_worker/table.sql');
    is(unannounced('table_worker', '', $table, @in), '', 'so does the example of a worker on a table');

    my $endless = slurp('examples/start/letters.sql') =~ s/^ +failed --> \[\*\]\n//mr;
    is(scalar(() = unannounced('endless', '', $endless, database('pages_endless', 'pawl')) =~ /cannot end/g), 1,
        'a queue whose rows cannot end is found');
}
done_testing();
