builtin.module {
  vk.kernel @control(%x: !vk.tensor<[N], f32>, %n: i64, %out: !vk.tensor<[N], f32>, %steps: !vk.tensor<[2], i64>) {
    %N = vk.size N
    vk.tile i < %N
    %y = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %0 = arith.constant 0 : i64
    %n_1, %count = scf.while (%n_2 = %n, %count_1 = %0) : (i64, i64) -> (i64, i64) {
      %1 = arith.constant 1 : i64
      %2 = arith.cmpi sgt, %n_2, %1 : i64
      %3 = arith.constant 100 : i64
      %4 = arith.cmpi slt, %count_1, %3 : i64
      %5 = arith.andi %2, %4 : i1
      scf.condition(%5) %n_2, %count_1 : i64, i64
    } do {
    ^bb0(%n_3: i64, %count_2: i64):
      %6 = arith.constant 2 : i64
      %7 = arith.remsi %n_3, %6 : i64
      %8 = arith.xori %7, %6 : i64
      %9 = arith.constant 0 : i64
      %10 = arith.cmpi ne, %7, %9 : i64
      %11 = arith.cmpi slt, %8, %9 : i64
      %12 = arith.andi %10, %11 : i1
      %13 = arith.addi %7, %6 : i64
      %14 = arith.select %12, %13, %7 : i64
      %15 = arith.cmpi eq, %14, %9 : i64
      %n_4 = scf.if %15 -> (i64) {
        %n_5 = arith.floordivsi %n_3, %6 : i64
        scf.yield %n_5 : i64
      } else {
        %16 = arith.constant 3 : i64
        %17 = arith.muli %16, %n_3 : i64
        %18 = arith.constant 1 : i64
        %n_6 = arith.addi %17, %18 : i64
        %local = arith.floordivsi %n_6, %6 : i64
        %19 = arith.muli %9, %local : i64
        %n_7 = arith.addi %n_6, %19 : i64
        scf.yield %n_7 : i64
      }
      %20 = arith.constant 1 : i64
      %count_3 = arith.addi %count_2, %20 : i64
      scf.yield %n_4, %count_3 : i64, i64
    }
    %21 = arith.constant 5 : i64
    %22 = arith.cmpi sgt, %count, %21 : i64
    %y_1, %label = scf.if %22 -> (tensor<?xf32, #vk.axes<i>>, f64) {
      %23 = arith.constant 2.000000e+00 : f32
      %24 = vk.broadcast %23 : f32 -> tensor<?xf32, #vk.axes<i>>
      %y_2 = arith.mulf %y, %24 : tensor<?xf32, #vk.axes<i>>
      %25 = arith.constant 1.000000e+00 : f64
      scf.yield %y_2, %25 : tensor<?xf32, #vk.axes<i>>, f64
    } else {
      %26 = arith.constant 2 : i64
      %27 = arith.cmpi sgt, %count, %26 : i64
      %28 = arith.constant true
      %29 = arith.xori %27, %28 : i1
      %label_1 = scf.if %29 -> (f64) {
        %30 = arith.constant 2.000000e+00 : f64
        scf.yield %30 : f64
      } else {
        %31 = arith.sitofp %count : i64 to f64
        scf.yield %31 : f64
      }
      scf.yield %y, %label_1 : tensor<?xf32, #vk.axes<i>>, f64
    }
    %32 = arith.truncf %label : f64 to f32
    %33 = vk.broadcast %32 : f32 -> tensor<?xf32, #vk.axes<i>>
    %34 = arith.addf %y_1, %33 : tensor<?xf32, #vk.axes<i>>
    vk.store %34 in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
    vk.store %count in %steps[%0] : !vk.tensor<[2], i64> <- i64
    %35 = arith.cmpi sgt, %count, %21 : i64
    %36 = arith.constant 3 : i64
    %37 = arith.cmpi sgt, %n_1, %36 : i64
    %38 = arith.ori %35, %37 : i1
    %39 = scf.if %38 -> (i64) {
      %40 = arith.constant 7 : i64
      scf.yield %40 : i64
    } else {
      %41 = vk.load %x[%0] guarding [0] : !vk.tensor<[N], f32> -> f32
      %42 = arith.fptosi %41 : f32 to i64
      scf.yield %42 : i64
    }
    %43 = arith.constant 1 : i64
    vk.store %39 in %steps[%43] : !vk.tensor<[2], i64> <- i64
  }
}
