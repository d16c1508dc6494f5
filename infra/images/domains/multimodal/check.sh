set -e
folder=$(mktemp -d)
cd "$folder"
ffmpeg -v error -f lavfi -i color=red:s=32x32:r=5:d=1 -c:v libx264 -pix_fmt yuv420p film.mp4
test "$(ffprobe -v error -count_frames -select_streams v -show_entries stream=nb_read_frames -of csv=p=0 film.mp4)" = 5
ffmpeg -v error -i film.mp4 -frames:v 1 frame.png
convert frame.png -resize 16x16 frame.gif
test "$(identify -format %wx%h frame.gif)" = 16x16
sox -n -r 8000 tone.wav synth 0.5 sine 440
test "$(soxi -s tone.wav)" = 4000
qrencode -o code.png seen
test "$(zbarimg -q --raw code.png)" = seen
python3 -c 'from PIL import Image; assert Image.open("frame.png").size == (32, 32)'
