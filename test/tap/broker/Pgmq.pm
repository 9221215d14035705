# PGMQ for the tests: the extension where the server has it (PAWL_PGMQ brings it), and
# functions that stand in for it where not.
package Pgmq;

use strict;
use warnings;
use Exporter 'import';
use PawlTest;
use Test::More;

our @EXPORT = qw(install_pgmq);

# Says which it is.
sub install_pgmq
{
	my ($node) = @_;
	my $version = one($node, q{select default_version from pg_available_extensions where name = 'pgmq'});
	$node->safe_psql('postgres', $version eq '' ? fixture('pgmq.sql') : 'create extension pgmq');
	diag($version eq '' ? 'functions stand in for PGMQ' : "tried with the extension PGMQ $version");
	return $version;
}

1;
