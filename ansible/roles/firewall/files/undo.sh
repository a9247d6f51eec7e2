# The way back, for sh: the rules from before where some stood, and else none.
before=/run/tributary-firewall-before
if [ -e "$before/tributary-firewall.nft" ]; then
    cp "$before/tributary-site.nft" /etc/nftables.d/
    # Also where a new package has brought others.
    nft --includepath /etc/nftables.d --file "$before/tributary-firewall.nft"
    cp "$before/tributary-site.nft" "$before/tributary-firewall.nft" /run/tributary-firewall/
else
    # Not at the next boot either; the next run of the playbook enables it again.
    systemctl disable --now tributary-firewall.service
fi
