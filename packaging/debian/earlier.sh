# Whether version $2 is not to take the place of $1, and why not, with the way back.
refused() {
    [ "$EDGEAGENT_ALLOW_DOWNGRADE" != yes ] && dpkg --compare-versions "$1" gt "$2" || return 1
    cat >&2 <<-END
	edgeagent: $1 is here, and $2 is earlier: it may not read the database of that one.
	Nothing was changed. The way back, which loses what has come since the upgrade:
	  edgeagent backup list                    # the backup that the upgrade has made: pre-...-from-$2-...
	  systemctl stop edgeagent
	  EDGEAGENT_ALLOW_DOWNGRADE=yes dpkg -i edgeagent_$2_@ARCHITECTURE@.deb
	  edgeagent backup restore THAT-BACKUP     # if there is one: else no table has changed
	  systemctl start edgeagent
	END
}
