# Joins the parts of an install script. A line "-- @diagram <machine> <file>" becomes the definition of a machine by a
# diagram that lies beside the part.
/^-- @diagram / {
    directory = FILENAME
    sub(/[^\/]*$/, "", directory)
    printf "SELECT pawl.define('%s', $diagram$", $3
    while ((getline line < (directory $4)) > 0) print line
    print "$diagram$, unbound => 'note');"
    next
}
{ print }
