# A copy of the installation that has version 0.0.9 too, an older version that test/upgrade makes, and the update from
# it. The newest library serves both.
package OlderVersion;

use strict;
use warnings;
use Exporter 'import';
use File::Copy 'copy';
use FindBin;
use PawlTest;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(installation_with_older_version);

# The install path, for new_cluster.
sub installation_with_older_version
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $top = "$FindBin::Bin/../..";
	my ($install_path, $extensions) = copy_of_installation("$folder/root");
	system('perl', "$top/test/upgrade/older.pl", "$extensions/pawl--0.1.0.sql", $folder) == 0 or die 'older.pl failed';
	my $parts = join ' ', map { "'$top/sql/pawl/$_'" } grep { /\S/ } map { s/ *#.*//r =~ s/\n//r }
		do { open(my $in, '<', "$top/sql/pawl/load_order") or die $!; <$in> };
	system("{ cat '$folder/by_hand.sql'; awk -f '$top/extension/update.awk' $parts; awk -v extension=pawl -f "
		. "'$top/extension/privileges.awk' '$top/sql/pawl/privileges'; } >'$folder/pawl--0.0.9--0.1.0.sql'") == 0
		or die 'no update';
	copy("$folder/$_", "$extensions/$_") or die "$_: $!" for 'pawl--0.0.9.sql', 'pawl--0.0.9--0.1.0.sql';
	return $install_path;
}

1;
