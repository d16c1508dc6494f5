"""Security: certificates, permissions, logs, passwords and firewalls, from the side of those who defend."""

from __future__ import annotations

from pipeline.generators.domains.security.accounts import permission_policy, setuid_sweep
from pipeline.generators.domains.security.certificates import cert_inventory, private_ca
from pipeline.generators.domains.security.deliveries import webhook_signatures
from pipeline.generators.domains.security.firewall import firewall_verdicts
from pipeline.generators.domains.security.intrusions import auth_forensics, web_injection
from pipeline.generators.domains.security.passwords import password_audit
from pipeline.generators.domains.security.ssh import key_fingerprints, sshd_hardening
from pipeline.generators.domains.security.supervision import service_exits
from pipeline.generators.domains.security.verifications import verify_forensics
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="security",
    families={
        "private_ca": private_ca,
        "cert_inventory": cert_inventory,
        "auth_forensics": auth_forensics,
        "web_injection": web_injection,
        "webhook_signatures": webhook_signatures,
        "firewall_verdicts": firewall_verdicts,
        "permission_policy": permission_policy,
        "setuid_sweep": setuid_sweep,
        "sshd_hardening": sshd_hardening,
        "key_fingerprints": key_fingerprints,
        "password_audit": password_audit,
        "service_exits": service_exits,
        "verify_forensics": verify_forensics,
    },
)
