"""Web services: servers to be set up, written and repaired, judged by requests while they run.

One file per family; commands.py has the commands that solutions are made of.
"""

from __future__ import annotations

from pipeline.generators.domains.web_service.balancers import balancer
from pipeline.generators.domains.web_service.bookings import bookings
from pipeline.generators.domains.web_service.downloads import downloads
from pipeline.generators.domains.web_service.hooks import webhook_receiver
from pipeline.generators.domains.web_service.links import link_report
from pipeline.generators.domains.web_service.lookups import status_lookup
from pipeline.generators.domains.web_service.php_apps import php_app
from pipeline.generators.domains.web_service.redis_stores import redis_store
from pipeline.generators.domains.web_service.repairs import repair
from pipeline.generators.domains.web_service.searches import manual_search
from pipeline.generators.domains.web_service.sites import static_site
from pipeline.generators.domains.web_service.tls import tls_portal
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="web_service",
    families={
        "static_site": static_site,
        "tls_portal": tls_portal,
        "balancer": balancer,
        "php_app": php_app,
        "redis_store": redis_store,
        "webhook_receiver": webhook_receiver,
        "bookings": bookings,
        "link_report": link_report,
        "status_lookup": status_lookup,
        "repair": repair,
        "downloads": downloads,
        "manual_search": manual_search,
    },
)
