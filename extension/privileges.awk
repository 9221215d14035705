# Turns sql/<extension>/privileges into the end of its install script: EXECUTE on each of its functions for the roles
# that are listed, and for no other. Every line names a function that there is.
/^[ \t]*(#|$)/ { next }
!match($0, /^[a-z_0-9]+(\([^)]*\))?/) || NF < 2 {
    printf "%s:%d: expected a function and its roles\n", FILENAME, FNR >"/dev/stderr"
    failed = 1
    exit 1
}
{
    name = substr($0, 1, RLENGTH)
    roles = substr($0, RLENGTH + 1)
    gsub(/^[ \t]+|[ \t]+$/, "", roles)
    gsub(/[ \t]+/, ", ", roles)
    lines = lines (lines == "" ? "" : ",\n") sprintf("        ('%s', '%s')", name, roles)
}
END {
    if (failed) exit 1
    print "\nDO $privileges$"
    print "DECLARE"
    print "    others constant text := (SELECT pg_catalog.string_agg(r.rolname, ', ') FROM pg_catalog.pg_roles r"
    print "                              WHERE r.rolname = ANY ('{pawl_admin,pawl_operator,pawl_worker,pawl_reader,pawl_restore,pawl_authenticator}'));"
    print "    routine regprocedure;"
    print "    function text;"
    print "    roles text;"
    print "BEGIN"
    printf "    EXECUTE 'REVOKE ALL ON ALL ROUTINES IN SCHEMA %s FROM PUBLIC, ' || others;\n", extension
    print "    FOR function, roles IN VALUES"
    print lines
    print "    LOOP"
    print "        routine := NULL;"
    print "        FOR routine IN"
    print "            SELECT p.oid FROM pg_catalog.pg_proc p"
    printf "             WHERE p.pronamespace = '%s'::pg_catalog.regnamespace AND p.proname = pg_catalog.split_part(function, '(', 1)\n",
        extension
    printf "               AND (function !~ '\\(' OR p.oid = pg_catalog.to_regprocedure('%s.' || function))\n",
        extension
    print "        LOOP"
    print "            EXECUTE pg_catalog.format('GRANT EXECUTE ON ROUTINE %s TO %s', routine, roles);"
    print "        END LOOP;"
    print "        IF routine IS NULL THEN"
    printf "            RAISE EXCEPTION 'sql/%s/privileges names a function that there is not: %%', function USING ERRCODE = '42883';\n",
        extension
    print "        END IF;"
    print "    END LOOP;"
    print "END"
    print "$privileges$;"
}
