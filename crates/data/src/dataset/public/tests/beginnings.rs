//! Has the first lines of public data sets, as their documentation shows them or describes them. Those of
//! files that have to be converted are what the command for that makes of them.

/// What the first lines of the files are like, by their documentation: the data set, its lines, the users,
/// items and ratings that they name, and whether they have times.
pub(super) const BEGINNINGS: [(&str, &str, [usize; 3], bool); 23] = [
    (
        "ml-100k",
        "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
        [2, 2, 2],
        true,
    ),
    (
        "ml-1m",
        "1::1193::5::978300760\n1::661::3::978302109\n",
        [1, 2, 2],
        true,
    ),
    (
        "ml-10m",
        "1::122::5::838985046\n1::185::0.5::838983525\n",
        [1, 2, 2],
        true,
    ),
    (
        "ml-latest",
        "userId,movieId,rating,timestamp\n1,1,4.0,1225734739\n1,110,0.5,1225865086\n",
        [1, 2, 2],
        true,
    ),
    (
        "lastfm-2k",
        "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n",
        [1, 2, 2],
        false,
    ),
    (
        "lastfm-2k-tags",
        "userID\tartistID\ttagID\ttimestamp\n2\t52\t13\t1238536800000\n2\t52\t15\t1238536800000\n",
        [1, 1, 2],
        true,
    ),
    (
        "amazon-beauty",
        "A39HTATAQ9V7YF,0205616461,5.0,1369699200\nA3JM6GV9MNOF9X,0558925278,3.0,1355443200\n",
        [2, 2, 2],
        true,
    ),
    (
        "amazon-beauty-5core",
        "user,item,rating,timestamp\nA1YJEY40YUW4SE,7806397051,1,1391040000\n",
        [1, 1, 1],
        true,
    ),
    (
        "amazon-2018-beauty",
        "0143026860,A1V6B6TNIC10QE,1.0,1424304000\n0143026860,A2F5GHSXFQ0W6J,4.0,1418860800\n",
        [2, 1, 2],
        true,
    ),
    (
        "movietweetings-100k",
        "1::1074638::7::1365029107\n",
        [1, 1, 1],
        true,
    ),
    (
        "gowalla",
        "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n\
         0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n",
        [1, 2, 2],
        true,
    ),
    (
        "filmtrust",
        "1 1 2\r\n1 2 4\r\n2 1 3.5\r\n",
        [2, 2, 3],
        false,
    ),
    (
        "kuairec",
        "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n\
         0,3649,13838,10867,2020-07-05 00:08:23.438,20200705,1593878903.438,1.273397\n",
        [1, 1, 1],
        true,
    ),
    (
        "tenrec-qb-article",
        "user_id,item_id,click,gender,age\n1,17,1,1,3\n1,18,1,1,3\n",
        [1, 2, 2],
        false,
    ),
    (
        "yelp",
        "{\"review_id\":\"K\",\"user_id\":\"mh\",\"business_id\":\"XQ\",\"stars\":3.0,\"useful\":0,\"text\":\"If\\nso\",\
         \"date\":\"2018-07-07 22:09:11\"}\n",
        [1, 1, 1],
        true,
    ),
    (
        "steam",
        "user,item,date\nChaos Syren,725280,2017-12-17\n\"l'x, y\",7,2017-01-02\n",
        [2, 2, 2],
        true,
    ),
    (
        "foursquare-nyc",
        "470\t49bbd6c0f964a520f4531fe3\t2012-04-03 18:00:09\n",
        [1, 1, 1],
        true,
    ),
    (
        "douban-movie",
        "UserId\tItemId\tRating\tTimestamp\n630157\t0\t5\t1182009600.0\n630157\t1\t-1\t1182009600.0\n",
        [1, 2, 2],
        true,
    ),
    ("citeulike-a", "1 495\n1 1631\n2 495\n", [2, 2, 3], false),
    ("pinterest", "0\t1\t1\t0\n1\t25\t1\t0\n", [2, 2, 2], false),
    (
        "bookcrossing",
        "\"User-ID\";\"ISBN\";\"Book-Rating\"\n\"276725\";\"034545104X\";\"0\"\n\"276726\";\"0155061224\";\"5\"\n",
        [2, 2, 2],
        false,
    ),
    (
        "mind",
        "U13740\tN55689\t2019-11-11 09:05:58\n",
        [1, 1, 1],
        true,
    ),
    (
        "netflix",
        "1488844,1,3,2005-09-06\n822109,1,5,2005-05-13\n",
        [2, 1, 2],
        true,
    ),
];
