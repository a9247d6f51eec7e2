# The way back, for sh: the rules from before where some stood, and else none.
before=/run/tributary-firewall-before
if [ -e "$before/tributary-firewall.nft" ]; then
    cp "$before/tributary-site.nft" "$before/tributary-firewall.nft" /etc/nftables.d/
    systemctl reload tributary-firewall.service
else
    # Not at the next boot either; the next run of the playbook enables it again.
    systemctl disable --now tributary-firewall.service
fi
