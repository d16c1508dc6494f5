set -e
folder=$(mktemp -d)
cd "$folder"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=seen -days 1 2>/dev/null
openssl verify -CAfile cert.pem cert.pem
ssh-keygen -q -t ed25519 -N '' -f identity
echo text > note
ssh-keygen -q -Y sign -f identity -n file note
printf 'someone %s\n' "$(cat identity.pub)" > signers
ssh-keygen -Y verify -f signers -I someone -n file -s note.sig < note
test "$(mkpasswd -m sha-256 -S saltsalt secret)" = "$(openssl passwd -5 -salt saltsalt secret)"
gpg --version > /dev/null
git init -q history
python3 -c 'import hmac, ssl'
zcat /srv/manual/openssl/X509_STORE_CTX_get_error.3ssl.gz | grep -q X509_V_ERR_CERT_HAS_EXPIRED
zcat /srv/manual/exits/sysexits.h.3head.gz | grep -q EX_TEMPFAIL
python3 -c 'import sys; sys.path.insert(0, "/srv/password_lists"); import frequency_lists as f; assert len(f.FREQUENCY_LISTS) == 6'
