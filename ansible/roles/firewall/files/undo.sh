# The way back, for sh: the rules from before where some stood, and else none.
before=/run/tributary-firewall-before
if [ -e "$before/tributary-firewall.nft" ]; then
    cp "$before/tributary-site.nft" "$before/tributary-firewall.nft" /etc/nftables.d/
    systemctl reload tributary-firewall.service
else
    systemctl stop tributary-firewall.service
fi
