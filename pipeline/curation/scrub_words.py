"""Lists of words that tell what is personal from what only looks like it; the rules are in personal.py."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TOP_LEVEL = _words(
    """
    com org net edu gov mil int info biz name dev app email cloud online site tech me io ai co xyz pro systems
    software berlin cat eus gal scot wales paris london tokyo moe sexy ninja space club life world works team
    group network solutions agency codes engineering institute academy university social link page live mobi
    asia museum
    """
)
"""Top-level domains below which addresses of persons stand; those of two letters count without being listed."""

FILE_ENDINGS = _words(
    """
    py sh so md js ts rb hs pm ps gz bz xz db vb cs qt kt mo po ko mk tf
    """
)
"""Two letters that end names of files more often than addresses."""

ROLES = _words(
    """
    info support help helpdesk admin administrator sales contact security abuse webmaster postmaster hostmaster
    noreply no-reply donotreply do-not-reply nobody root bugs bug dev devel developers team hello list lists
    owner request press legal privacy office mail mailer-daemon git hg svn cvs user username users you me name
    your-name your.name yourname your_name your.email your-email youremail email test tester foo bar baz example
    daemon news jobs licensing license maintainers maintainer packages opensource open-source oss conduct coc
    builder build ci bot github gitlab ubuntu debian ec2-user deploy postgres mysql www-data feedback community
    copyright permissions security-alert service notifications notification first.last firstname.lastname
    someone somebody somename anonymous guest system myname john.doe jane.doe johndoe janedoe john jane alice
    bob joe a b x y foo.bar foobar abc xyz demo recipient sender to from webapp app server client customer
    billing accounts account marketing hr it ops devops
    """
)
"""What stands before the @ where nobody in particular is meant."""

NOBODY = _words(
    """
    user users username usr name yourname your_name your-name youruser myuser my_user me you ubuntu debian
    vagrant runner runneradmin circleci travis jenkins node app apps admin administrator git www www-data work
    worker workspace build builder buildkite builduser docker dev developer devel test tester testuser testing
    guest pi ec2-user centos fedora alpine arch nix nixbld vscode gitpod jovyan coder codespace linuxbrew
    homebrew postgres mysql nginx apache deploy deployer ci bot shared public default foo bar baz example demo
    sample student agent sandbox model oracle someone somebody alice bob carol john jane johndoe janedoe jdoe
    appuser nonroot nobody root service steam ftp mail backup data local linux rstudio airflow spark hadoop
    flutter node_modules bin lib etc all.users abuild nodejs custom
    """
)
"""Names of users in images, in build services and in examples."""

RESOLVERS = _words(
    """
    8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 9.9.9.9 149.112.112.112 208.67.222.222 208.67.220.220
    """
)
"""Addresses of name servers that everybody uses."""

MACHINES = _words(
    """
    localhost localhost.localdomain host hostname server client machine computer laptop desktop docker container
    sandbox linux worker1 node1 master main proxy squid mirror registry buildkitsandbox
    """
)
"""Names of machines that say nothing."""
